# The pipeline, on one page.
libstem_core_la_SOURCES += %D%/pipeline.c %D%/pipeline.h
