# Examples: each is run by the checks.
EXAMPLES = %D%/dual_stream_moe.stem %D%/dsa_indexer.stem %D%/gqa_decode.stem %D%/inline_kernel.stem %D%/piecewise.stem \
	%D%/qkv_three_streams.stem
# Whole models, small in the checks, measured by tests/bench/models.sh.
EXAMPLES += %D%/models/deepseek_v2_lite.stem %D%/models/deepseek_v32_rank.stem \
	%D%/models/kimi_k25_rank.stem %D%/models/qwen3_30b_a3b.stem
EXTRA_DIST += $(EXAMPLES) $(EXAMPLES:.stem=.md)
# With a function in C, which tests/cli/tensors.sh builds.
EXTRA_DIST += %D%/extern_function.stem %D%/extern_function.md %D%/rotate_rows.c
# Foreign projects around what `mainstem emit` writes; built by tests/emit/embed.sh.
EXTRA_DIST += %D%/embed/c/Makefile %D%/embed/c/decode.c %D%/embed/cmake/CMakeLists.txt %D%/embed/cmake/buckets.cpp \
	%D%/embed/pytorch/embed.py
