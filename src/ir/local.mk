# The program: typed ops over values.
libstem_core_la_SOURCES += \
	%D%/build.c %D%/build.h %D%/check.c %D%/dim.c %D%/dim.h %D%/dim_impl.h %D%/dim_op.c %D%/ir.c %D%/ir.h \
	%D%/lex.c %D%/lex.h %D%/lower.c %D%/print.c %D%/read.c %D%/read.h %D%/read_op.c %D%/text.h %D%/type.c %D%/type.h %D%/versions.c
