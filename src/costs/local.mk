# The table of measured costs.
libstem_core_la_SOURCES += %D%/costs.h %D%/key.c %D%/read.c %D%/table.c %D%/write.c
