# The injection library without a GPU: its handlers against the stand-in driver; the whole of it in a program that
# plays the driver's part, with a stand-in for CUPTI (tests/cli/relane.sh).
EXTRA_DIST += %D%/fakecupti.h
check_LTLIBRARIES += libfakecupti.la
libfakecupti_la_SOURCES = %D%/fakecupti.c %D%/fakecupti.h
libfakecupti_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
check_PROGRAMS += %D%/program
%C%_program_SOURCES = %D%/program.c
%C%_program_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/fakecuda
%C%_program_LDADD = libfakecupti.la libfakecuda.la

if HAVE_CUNIT
check_PROGRAMS += %D%/test_inject %D%/test_memory
TESTS += %D%/test_inject %D%/test_memory
%C%_test_memory_SOURCES = %D%/test_memory.c tests/fakecuda/lib.c tests/fakecuda/lib.h
%C%_test_memory_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit -I$(top_srcdir)/tests/fakecuda \
	-DSTAND_IN='"$(abs_top_builddir)/.libs/libfakecuda.so"'
%C%_test_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=free
%C%_test_memory_LDADD = libstem-inject.la libfakecuda.la libstem-core.la libstem-rt.la -lcunit -lpthread
%C%_test_inject_SOURCES = %D%/test_inject.c tests/fakecuda/lib.c tests/fakecuda/lib.h
%C%_test_inject_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit -I$(top_srcdir)/tests/fakecuda \
	-DSTAND_IN='"$(abs_top_builddir)/.libs/libfakecuda.so"'
%C%_test_inject_LDADD = libstem-inject.la libfakecuda.la libstem-core.la libstem-rt.la -lcunit -lpthread
EXTRA_DIST += %D%/abi_cupti.c
if HAVE_CUPTI_HEADERS
%C%_test_inject_SOURCES += %D%/abi_cupti.c
%C%_test_inject_CPPFLAGS += -isystem $(CUDA_HOME_DIR)/include -isystem $(CUDA_HOME_DIR)/extras/CUPTI/include
endif
endif
