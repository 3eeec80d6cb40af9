# The program: typed ops over values.
libstem_core_la_SOURCES += %D%/build.h %D%/dim.h %D%/ir.h %D%/type.h
