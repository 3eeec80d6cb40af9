# Property tests: random programs (gen.c), a notation for small ones (flow.c), and a checker by brute force (check.c).
if HAVE_CUNIT
PROP_TESTS = %D%/test_prop_pass %D%/test_values
%C%_test_prop_pass_SOURCES = %D%/test_prop_pass.c %D%/check.c %D%/check.h %D%/flow.c %D%/flow.h %D%/gen.c %D%/gen.h \
	%D%/shrink.c %D%/shrink.h
%C%_test_prop_pass_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_prop_pass_LDADD = libstem-core.la libstem-rt.la -lcunit
# Programs whose values the test computes itself.
%C%_test_values_SOURCES = %D%/test_values.c
%C%_test_values_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_test_values_LDADD = libstem-core.la libstem-rt.la -lcunit -lpthread
check_PROGRAMS += $(PROP_TESTS)
TESTS += $(PROP_TESTS)
endif
