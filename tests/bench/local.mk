# Sources and tests of tests/bench/.
EXTRA_DIST += %D%/compile.sh %D%/proof.sh %D%/run.sh %D%/peers/torch_moe.py %D%/peers/triton_moe.py %D%/peers/torch_models.py \
	%D%/jobs.py %D%/layers.py %D%/models.py %D%/models.sh %D%/table.py %D%/test_tables.py %D%/streams.sh %D%/report.py %D%/report.sh %D%/peers/model_error.py
# Built by hand on a machine with a GPU: the command is in bench.cu.
EXTRA_DIST += %D%/kernels/bench.cu %D%/kernels/run.sh %D%/kernels/kernels.py %D%/kernels/cases.h %D%/kernels/arrays.h %D%/kernels/harness.h %D%/kernels/attention.cu %D%/kernels/attention_cases.h \
	%D%/kernels/formats.cu %D%/kernels/formats_cases.h %D%/kernels/coded.h %D%/kernels/even.cu %D%/kernels/even_cases.h %D%/kernels/even_wgmma.h
EXTRA_DIST += %D%/emit.sh %D%/emit_overhead.c %D%/start.sh %D%/start.c %D%/start_emitted.c
