# Emitted C: compiled by the host's compiler and run under the stand-in driver.
EXTRA_DIST += %D%/adapter.c
dist_check_SCRIPTS += %D%/embed.sh %D%/names.sh
TESTS += %D%/embed.sh %D%/names.sh
if HAVE_CUNIT
EMIT_RIG = %D%/emitted.h %D%/programs.h %D%/rig.c %D%/rig.h tests/fakecuda/plan_builtin.c tests/fakecuda/plan_runner.c \
	tests/fakecuda/plan_runner.h
EMIT_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS) -I$(top_srcdir)/tests/fakecuda -DTOP='"$(abs_top_srcdir)"' -DCUDA_HOME='"$(CUDA_HOME_DIR)"'
EMIT_LDADD = libfakecuda.la libstem-core.la libstem-rt.la -lcunit -lpthread -ldl
check_PROGRAMS += %D%/test_run %D%/test_errors
TESTS += %D%/test_run %D%/test_errors
%C%_test_run_SOURCES = %D%/test_run.c $(EMIT_RIG)
%C%_test_run_CPPFLAGS = $(EMIT_CPPFLAGS)
%C%_test_run_LDADD = $(EMIT_LDADD)
%C%_test_errors_SOURCES = %D%/test_errors.c $(EMIT_RIG)
%C%_test_errors_CPPFLAGS = $(EMIT_CPPFLAGS)
%C%_test_errors_LDADD = $(EMIT_LDADD)
endif
