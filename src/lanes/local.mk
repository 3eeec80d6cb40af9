# The driver's lane assignment, as a model: predict, explain, repair, read, print.
libstem_core_la_SOURCES += \
	%D%/driver_580.c %D%/graph.c %D%/lanes.c %D%/lanes.h %D%/lanes_internal.h %D%/read.h %D%/read_lines.c
