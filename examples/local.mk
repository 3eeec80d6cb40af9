# Examples: each is run by the checks.
EXAMPLES = %D%/dual_stream_moe.stem %D%/dsa_indexer.stem %D%/inline_kernel.stem %D%/piecewise.stem \
	%D%/qkv_three_streams.stem
EXTRA_DIST += $(EXAMPLES) $(EXAMPLES:.stem=.md)
