# The command line.
bin_PROGRAMS += mainstem
mainstem_SOURCES = \
	%D%/bench.h %D%/bench_compile.c %D%/bench_floor.c %D%/bench_print.c %D%/bench_run.c %D%/caller.c %D%/caller.h %D%/cli.h %D%/cmd_audit.c %D%/cmd_bench.c %D%/cmd_compile.c %D%/cmd_diff.c %D%/cmd_emit.c %D%/cmd_explain.c %D%/cmd_ops.c \
	%D%/cmd_lanes.c %D%/cmd_relane.c %D%/cmd_report.c %D%/cmd_run.c %D%/cmd_tune.c %D%/costs.c %D%/tune.h %D%/tune_measure.c %D%/tune_ops.c %D%/tune_plan.c %D%/usage.c %D%/cmd_verify.c %D%/commands.def %D%/common.c %D%/compile.c %D%/device.c %D%/device.h %D%/digest.c %D%/digest.h %D%/explain_streams.c %D%/files.c \
	%D%/gpu_check.c %D%/gpu_check.h %D%/gpu_ops.c %D%/inject.c %D%/inject.h %D%/inject_table.c %D%/kernel_error.c %D%/kernel_error.h %D%/main.c %D%/profile.c %D%/profile.h %D%/progress.c %D%/results.c %D%/run.h %D%/run_cpu.c %D%/run_gpu.c \
	%D%/summary.c %D%/summary.h %D%/watched.c %D%/watched.h %D%/weights.c %D%/weights.h
mainstem_LDADD = libstem-core.la libstem-rt.la
# Functions of the program that extern ops' shared objects call back into are found in it.
mainstem_LDFLAGS = -export-dynamic
