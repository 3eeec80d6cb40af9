# The command line as a user meets it, without a GPU.
TESTS += %D%/bench_tables.sh %D%/cpu_cache.sh %D%/docs.sh %D%/main.sh %D%/mistakes.sh %D%/lanes.sh %D%/models.sh %D%/relane.sh %D%/tensors.sh %D%/tutorial.sh %D%/weights.sh
EXTRA_DIST += %D%/expect.sh %D%/weights.sh %D%/bench_tables.sh %D%/cpu_cache.sh %D%/cpu_cache.sh %D%/docs.sh %D%/tutorial.sh %D%/tutorial.py %D%/tensors.sh %D%/tensors.py %D%/tensors.stem %D%/main.sh %D%/mistakes.sh %D%/lanes.sh %D%/models.sh %D%/relane.sh %D%/data/parts.stem %D%/data/layers.dot %D%/data/layers.out

# Measuring under the stand-in driver, which a preloaded shim gives the kernels of plans.
check_LTLIBRARIES += libtune_shim.la
libtune_shim_la_SOURCES = %D%/tune_shim.c tests/fakecuda/plan_builtin.c tests/fakecuda/plan_runner.h
libtune_shim_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/fakecuda
libtune_shim_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
libtune_shim_la_LIBADD = libfakecuda.la libstem-rt.la
TESTS += %D%/tune.sh
EXTRA_DIST += %D%/tune.sh %D%/bench_json.py
