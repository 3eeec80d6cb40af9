# Memory, strings, sources, diagnostics: knows nothing of programs.
libstem_core_la_SOURCES += \
	%D%/arena.c %D%/arena.h %D%/bitset.h %D%/diag.c %D%/diag.def %D%/diag.h %D%/directive.c %D%/directive.h %D%/out.c %D%/out.h \
	%D%/source.c %D%/source.h %D%/str.c %D%/str.h %D%/vec.h %D%/width.c %D%/width.h
