# The verifier.
libstem_core_la_SOURCES += \
	%D%/check.h %D%/edges.c %D%/memory.c %D%/structure.c %D%/verify.c %D%/verify.h
