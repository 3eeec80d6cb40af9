# The runtime: knows the plan and the driver, and includes nothing from src/.
libstem_rt_la_SOURCES += \
	%D%/array.c %D%/audit.c %D%/bind.c %D%/builtin.c %D%/cache.c %D%/cache.h %D%/capture.c %D%/checkpoint.c %D%/cublaslt.c %D%/cublaslt.h %D%/cublaslt_abi.h %D%/checkpoint.h %D%/compile.c %D%/cubin.c %D%/cuda_abi.h \
	%D%/cupti_abi.h %D%/driver.c %D%/driver.def %D%/driver.h %D%/dtype.c %D%/dtype.h %D%/error.c %D%/exec.c \
	%D%/exec.h %D%/fill.h %D%/fill_code.h %D%/graph.c %D%/helpers.c %D%/internal.h %D%/issue.c %D%/launch.c \
	%D%/locate.c %D%/mainstem_rt.h %D%/matmul.c %D%/matmul.h %D%/matmul_node.c %D%/nodes.c %D%/nvrtc.c %D%/nvrtc.h %D%/order.c %D%/plan.c %D%/plan.h %D%/plan_check.c \
	%D%/plan_check.h %D%/plan_json.c %D%/plan_names.h %D%/plan_read.c %D%/plan_reader.c %D%/plan_reader.h \
	%D%/replay.c %D%/route.c %D%/rt.c %D%/safetensors.c %D%/sources.c %D%/sources.h %D%/staging.c %D%/staging.h %D%/weights.c %D%/weights.h

# As a library of its own, for programs that carry a plan but no compiler.
lib_LTLIBRARIES += libmainstem-rt.la
libmainstem_rt_la_SOURCES =
libmainstem_rt_la_LIBADD = libstem-rt.la
pkginclude_HEADERS += %D%/dtype.h %D%/mainstem_rt.h %D%/plan.h
pkgconfig_DATA += %D%/mainstem-rt.pc
