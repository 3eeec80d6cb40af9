# The syntax tree and its printer.
libstem_core_la_SOURCES += %D%/ast.h %D%/print.c
