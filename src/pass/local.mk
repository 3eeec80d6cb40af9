# Passes over the program.
libstem_core_la_SOURCES += %D%/pass.h
