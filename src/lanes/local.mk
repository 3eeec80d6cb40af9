# The driver's lane assignment, as a model: predict, explain, repair, read, print.
libstem_core_la_SOURCES += \
	%D%/bound.c %D%/contract_580.c %D%/dot_build.c %D%/dot_nest.c %D%/driver_580.c %D%/driver_580.h %D%/expand.c %D%/explain.c %D%/from_plan.c %D%/graph.c %D%/lanes.c %D%/lanes.h %D%/lanes_internal.h \
	%D%/reach.c %D%/reach.h %D%/relane.c %D%/relane.h %D%/relane_read.c %D%/relane_read.h %D%/read.h %D%/read_dot.c %D%/read_dot.h %D%/read_lines.c %D%/repair.c %D%/repair.h \
	%D%/report.c %D%/report.h %D%/report_html.c
pkginclude_HEADERS += %D%/mainstem_lanes.h
