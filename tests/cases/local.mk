# Failures that real systems had, as small programs: the right behaviour of each is asserted by test_cases.
CASES = %D%/c01_dual_branch.stem %D%/c02_needless_fork.stem %D%/c03_late_record.stem %D%/c04_release_and_read.stem \
	%D%/c05_diamond.stem %D%/c06_shared_source.stem %D%/c07_side_free.stem %D%/c08_inplace.stem %D%/c08_mutual.stem %D%/c09_fusion.stem \
	%D%/c10_leaf.stem %D%/c11_write_only.stem %D%/c13_order_alone.stem %D%/c15_workspaces.stem \
	%D%/c16_early_launch.stem
EXTRA_DIST += $(CASES)
if HAVE_CUNIT
check_PROGRAMS += %D%/test_cases
%C%_test_cases_SOURCES = %D%/test_cases.c %D%/kit.c %D%/kit.h
%C%_test_cases_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit -DTOP='"$(abs_top_srcdir)"'
%C%_test_cases_LDADD = libstem-core.la libstem-rt.la -lcunit -lpthread
TESTS += %D%/test_cases
endif
