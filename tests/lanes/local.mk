# Tests of the lane model: measured graphs, and graphs of our own.
lane_data_files = %D%/data/edges.txt %D%/data/forks.txt %D%/data/held.txt %D%/data/kinds.txt %D%/data/mixed.txt %D%/data/random.txt \
	%D%/data/reference.txt %D%/data/small.txt
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
