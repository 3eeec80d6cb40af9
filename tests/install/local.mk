# What is installed, and that programs can be built against it.
TESTS += %D%/install.sh
EXTRA_DIST += %D%/install.sh %D%/symbols.txt %D%/fenced.awk %D%/callers.cc %D%/stand_in.c
installcheck-local: libfakecuda.la
	INSTALLED='$(DESTDIR)$(prefix)' SRCDIR='$(abs_top_srcdir)' BUILDDIR='$(abs_top_builddir)' CC='$(CC)' CXX='$(CXX)' \
		$(SHELL) $(srcdir)/%D%/install.sh
