# Meaning: from the tree to the program.
libstem_core_la_SOURCES += \
	%D%/callees.c %D%/callees.h %D%/check.c %D%/check.h %D%/check_call.c %D%/check_expr.c %D%/check_flow.c %D%/check_given.c %D%/check_unknown.c %D%/const.c %D%/count.c \
	%D%/expand.c %D%/expand.h %D%/expand_call.c %D%/expand_expr.c %D%/external.c \
	%D%/module.c %D%/module.h %D%/names.c %D%/names.h %D%/pointwise.c %D%/rounding.c %D%/sema.h %D%/signature.c %D%/type.c %D%/unique.c
