# Tests of the lane model: measured graphs, and graphs of our own.
lane_data_files = \
	%D%/data/chains.txt %D%/data/child.txt %D%/data/cond.txt %D%/data/copies.txt %D%/data/dense.txt %D%/data/densep.txt \
	%D%/data/edges.txt %D%/data/events.txt %D%/data/forks.txt %D%/data/held-child.txt %D%/data/held-copies.txt \
	%D%/data/held-dense.txt %D%/data/held-densep.txt %D%/data/held-empty.txt %D%/data/held-events.txt \
	%D%/data/held-memory.txt %D%/data/held-memsets.txt %D%/data/held-mix.txt %D%/data/held.txt %D%/data/kinds.txt \
	%D%/data/memory.txt %D%/data/memsets.txt %D%/data/mixed.txt %D%/data/random.txt %D%/data/reference.txt \
	%D%/data/small.txt %D%/data/wide.txt \
	%D%/data/dot/child.plain.dot %D%/data/dot/child.verbose.dot %D%/data/dot/cond.plain.dot \
	%D%/data/dot/cond.verbose.dot %D%/data/dot/copies.plain.dot %D%/data/dot/copies.verbose.dot \
	%D%/data/dot/emptyhost.plain.dot %D%/data/dot/emptyhost.verbose.dot %D%/data/dot/events.plain.dot \
	%D%/data/dot/events.verbose.dot %D%/data/dot/memory.plain.dot %D%/data/dot/memory.verbose.dot \
	%D%/data/dot/memset.plain.dot %D%/data/dot/memset.verbose.dot %D%/data/dot/nested.plain.dot \
	%D%/data/dot/nested.verbose.dot %D%/data/dot/pdl.plain.dot %D%/data/dot/pdl.verbose.dot
EXTRA_DIST += $(lane_data_files) %D%/rule.py

if HAVE_CUNIT
lane_tests = %D%/test_dot %D%/test_model %D%/test_relane %D%/test_repair %D%/test_report
%C%_test_relane_SOURCES = %D%/test_relane.c %D%/graphs.h tests/unit/unit.h
%C%_test_relane_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_relane_LDADD = $(UNIT_LDADD)
%C%_test_report_SOURCES = %D%/test_report.c %D%/graphs.h tests/unit/unit.h
%C%_test_report_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_report_LDADD = $(UNIT_LDADD)
%C%_test_dot_SOURCES = %D%/test_dot.c %D%/graphs.h tests/unit/unit.h
%C%_test_dot_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_dot_LDADD = $(UNIT_LDADD)
%C%_test_model_SOURCES = %D%/test_model.c %D%/graphs.h tests/unit/unit.h
%C%_test_model_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_model_LDADD = $(UNIT_LDADD)
%C%_test_repair_SOURCES = %D%/test_repair.c %D%/graphs.h tests/unit/unit.h
%C%_test_repair_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_repair_LDADD = $(UNIT_LDADD)

check_PROGRAMS += $(lane_tests)
TESTS += $(lane_tests)
endif
