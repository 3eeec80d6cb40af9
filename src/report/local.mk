# What people look at: the schedule as text, DOT, trace, page, comparison.
libstem_core_la_SOURCES += \
	%D%/dot.c %D%/fold.c %D%/grid.c %D%/grid.h %D%/report.h %D%/text.c \
	%D%/text8.c %D%/text8.h %D%/timeline.c %D%/trace.c
