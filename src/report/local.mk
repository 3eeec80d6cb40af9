# What people look at: the schedule as text, DOT, trace, page, comparison.
libstem_core_la_SOURCES += \
	%D%/before.c %D%/data.c %D%/diff.c %D%/diff.h %D%/diff_html.c %D%/diff_pair.c %D%/dot.c %D%/files.h %D%/fold.c %D%/grid.c %D%/grid.h %D%/html.c %D%/op_lanes.c %D%/profile.c %D%/report.h %D%/text.c \
	%D%/text8.c %D%/text8.h %D%/timeline.c %D%/trace.c

# The page, built into the library as text; scripts in this order.
STEM_PAGE = %D%/page.html %D%/page.css %D%/model.js %D%/plot.js %D%/details.js %D%/schedule.js %D%/graph.js %D%/memory.js \
	%D%/numbers.js %D%/source.js %D%/page.js
EXTRA_DIST += $(STEM_PAGE)
nodist_libstem_core_la_SOURCES += %D%/files.c
CLEANFILES += %D%/files.c
%D%/files.c: $(STEM_PAGE) scripts/embed.sh
	$(AM_V_GEN)$(MKDIR_P) %D% && $(SHELL) $(top_srcdir)/scripts/embed.sh report/files.h stem_report_file stem_report_files "" \
		$(top_srcdir) $(STEM_PAGE) > $@.tmp && mv $@.tmp $@
