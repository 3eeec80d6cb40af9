# The stand-in driver, and what is tested with it instead of a GPU.
check_LTLIBRARIES += libfakecuda.la
libfakecuda_la_SOURCES = \
	%D%/abi.h %D%/core.h %D%/driver.h %D%/fakecuda.h %D%/capture.c %D%/device.c %D%/exec.c %D%/graph.c \
	%D%/memory.c %D%/module.c %D%/node.c %D%/nvrtc.c %D%/sched.c %D%/state.c %D%/stream.c %D%/work.c
libfakecuda_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
libfakecuda_la_LIBADD = -lpthread

if HAVE_CUNIT
FAKECUDA_TESTS =
FAKECUDA_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
FAKECUDA_LDADD = libfakecuda.la -lcunit -lpthread

FAKECUDA_TESTS += %D%/test_streams
%C%_test_streams_SOURCES = %D%/test_streams.c %D%/lib.h %D%/lib.c
%C%_test_streams_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_test_streams_LDADD = $(FAKECUDA_LDADD)

FAKECUDA_TESTS += %D%/test_capture
%C%_test_capture_SOURCES = %D%/test_capture.c %D%/lib.h %D%/lib.c
%C%_test_capture_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_test_capture_LDADD = $(FAKECUDA_LDADD)

FAKECUDA_TESTS += %D%/test_graphs
%C%_test_graphs_SOURCES = %D%/test_graphs.c %D%/lib.h %D%/lib.c
%C%_test_graphs_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_test_graphs_LDADD = $(FAKECUDA_LDADD)


check_PROGRAMS += $(FAKECUDA_TESTS)
TESTS += $(FAKECUDA_TESTS)
endif
