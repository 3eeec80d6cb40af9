# The pipeline, on one page, and the library that programs link.
libstem_core_la_SOURCES += %D%/pipeline.c %D%/pipeline.h

lib_LTLIBRARIES += libmainstem.la
libmainstem_la_SOURCES = %D%/mainstem.c
libmainstem_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/runtime
libmainstem_la_LIBADD = libstem-core.la libstem-rt.la
libmainstem_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0
pkginclude_HEADERS += %D%/mainstem.h
pkgconfig_DATA += %D%/mainstem.pc
