# The stand-in driver, and what is tested with it instead of a GPU.
check_LTLIBRARIES += libfakecuda.la
libfakecuda_la_SOURCES = \
	%D%/abi.h %D%/core.h %D%/driver.h %D%/fakecuda.h %D%/capture.c %D%/cublaslt.c %D%/cupti.c %D%/device.c %D%/exec.c %D%/graph.c \
	%D%/memory.c %D%/module.c %D%/node.c %D%/nvrtc.c %D%/sched.c %D%/state.c %D%/stream.c %D%/work.c
libfakecuda_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
libfakecuda_la_LIBADD = -lpthread

# The same as a whole GPU for the command line: it executes the kernels of a plan (FAKEGPU_PLAN) with the C references.
check_LTLIBRARIES += libfakegpu.la
libfakegpu_la_SOURCES = %D%/gpu.c %D%/plan_builtin.c %D%/plan_runner.c %D%/plan_runner.h
libfakegpu_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
libfakegpu_la_LIBADD = libfakecuda.la libstem-core.la libstem-rt.la

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

FAKECUDA_TESTS += %D%/test_abi
%C%_test_abi_SOURCES = %D%/test_abi.c %D%/abi_facts.h
%C%_test_abi_CPPFLAGS = $(FAKECUDA_CPPFLAGS) -DSTAND_IN='"$(abs_top_builddir)/.libs/libfakecuda.so"'
%C%_test_abi_LDADD = $(FAKECUDA_LDADD)
EXTRA_DIST += %D%/abi_ours.c %D%/abi_cuda.c
if HAVE_CUDA_HEADERS
%C%_test_abi_SOURCES += %D%/abi_ours.c %D%/abi_cuda.c
%C%_test_abi_CPPFLAGS += -DHAVE_CUDA_H -isystem $(CUDA_HOME_DIR)/include
endif
# The runtime under the stand-in.
FAKECUDA_RT_CPPFLAGS = $(FAKECUDA_CPPFLAGS) -DSTAND_IN='"$(abs_top_builddir)/.libs/libfakecuda.so"'
FAKECUDA_RT_LDADD = libfakecuda.la libstem-rt.la -lcunit -lpthread

FAKECUDA_TESTS += %D%/test_rt
%C%_test_rt_SOURCES = %D%/test_rt.c %D%/plan_builtin.c %D%/plan_runner.h
%C%_test_rt_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS)
%C%_test_rt_LDADD = $(FAKECUDA_RT_LDADD)
FAKECUDA_RIG = %D%/plan_builtin.c %D%/plan_runner.h %D%/plans.c %D%/plans.h %D%/rig.c %D%/rig.h

FAKECUDA_TESTS += %D%/test_runtime
%C%_test_runtime_SOURCES = %D%/test_runtime.c $(FAKECUDA_RIG)
%C%_test_runtime_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS)
%C%_test_runtime_LDADD = $(FAKECUDA_RT_LDADD)
FAKECUDA_TESTS += %D%/test_order
%C%_test_order_SOURCES = %D%/test_order.c $(FAKECUDA_RIG)
%C%_test_order_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS)
%C%_test_order_LDADD = $(FAKECUDA_RT_LDADD)
FAKECUDA_TESTS += %D%/test_caller
%C%_test_caller_SOURCES = %D%/test_caller.c $(FAKECUDA_RIG)
%C%_test_caller_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS)
%C%_test_caller_LDADD = $(FAKECUDA_RT_LDADD)
FAKECUDA_TESTS += %D%/test_compiled
%C%_test_compiled_SOURCES = %D%/test_compiled.c %D%/plan_builtin.c %D%/plan_runner.c %D%/plan_runner.h
%C%_test_compiled_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS) -DTOP='"$(abs_top_srcdir)"'
%C%_test_compiled_LDADD = libfakecuda.la libstem-core.la libstem-rt.la -lcunit -lpthread
# The whole library, compiler included.
FAKECUDA_TESTS += %D%/test_jit
FAKECUDA_JIT = %D%/jit.c %D%/jit.h %D%/plan_builtin.c %D%/plan_runner.c %D%/plan_runner.h src/mainstem.c
%C%_test_jit_SOURCES = %D%/test_jit.c $(FAKECUDA_JIT)
%C%_test_jit_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS) -I$(top_srcdir)/runtime
%C%_test_jit_LDADD = libfakecuda.la libstem-core.la libstem-rt.la -lcunit -lpthread
FAKECUDA_TESTS += %D%/test_exhausted
%C%_test_exhausted_SOURCES = %D%/test_exhausted.c src/mainstem.c
%C%_test_exhausted_CPPFLAGS = $(FAKECUDA_RT_CPPFLAGS) -I$(top_srcdir)/runtime
%C%_test_exhausted_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
%C%_test_exhausted_LDADD = libstem-core.la libstem-rt.la -lcunit -lpthread
FAKECUDA_TESTS += %D%/test_matmul
%C%_test_matmul_SOURCES = %D%/test_matmul.c %D%/plan_builtin.c %D%/plan_runner.c %D%/plan_runner.h src/mainstem.c
%C%_test_matmul_CPPFLAGS = $(%C%_test_jit_CPPFLAGS)
%C%_test_matmul_LDADD = $(%C%_test_jit_LDADD)
FAKECUDA_TESTS += %D%/test_null
%C%_test_null_SOURCES = %D%/test_null.c $(FAKECUDA_JIT)
%C%_test_null_CPPFLAGS = $(%C%_test_jit_CPPFLAGS)
%C%_test_null_LDADD = $(%C%_test_jit_LDADD)
FAKECUDA_TESTS += %D%/test_weights
%C%_test_weights_SOURCES = %D%/test_weights.c $(FAKECUDA_JIT)
%C%_test_weights_CPPFLAGS = $(%C%_test_jit_CPPFLAGS)
%C%_test_weights_LDADD = $(%C%_test_jit_LDADD)

check_PROGRAMS += $(FAKECUDA_TESTS)
TESTS += $(FAKECUDA_TESTS)
endif
