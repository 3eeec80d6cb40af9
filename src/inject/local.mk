# The library that the driver loads into other programs. It carries its own copy of the lane model and exports one
# symbol; the parts that know nothing of CUPTI are a library of their own, for the tests.
noinst_LTLIBRARIES += libstem-inject.la
libstem_inject_la_SOURCES = %D%/calls.c %D%/inject.h %D%/measure.c %D%/report.c %D%/tally.c
libstem_inject_la_LIBADD = -lpthread

pkglib_LTLIBRARIES += libmainstem-inject.la
libmainstem_inject_la_SOURCES = \
	%D%/callback_abi.h %D%/init.c src/base/arena.c src/lanes/bound.c src/lanes/contract_580.c \
	src/lanes/driver_580.c src/lanes/expand.c src/lanes/explain.c \
	src/lanes/graph.c src/lanes/lanes.c src/lanes/reach.c src/lanes/relane.c src/lanes/relane_read.c src/lanes/repair.c runtime/error.c \
	runtime/locate.c
libmainstem_inject_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/runtime
libmainstem_inject_la_LIBADD = libstem-inject.la
libmainstem_inject_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
	-export-symbols-regex '^InitializeInjection$$'
