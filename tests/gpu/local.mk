# Tests that need a GPU; they say so and are skipped where there is none.
TESTS += %D%/gpu.sh
EXTRA_DIST += %D%/gpu.sh %D%/attention_ops.stem %D%/conversions.stem %D%/format_ops.stem %D%/latent_ops.stem %D%/norm_ops.stem %D%/packed_ops.stem %D%/products.stem
TESTS += %D%/python.sh
EXTRA_DIST += %D%/python.sh %D%/python_torch.py
TESTS += %D%/embed.sh
EXTRA_DIST += %D%/embed.sh
