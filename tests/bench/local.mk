# Benchmarks: not part of make check; tests/bench/run.sh prints every figure that the documents quote.
EXTRA_DIST += %D%/compile.sh %D%/run.sh %D%/peers/torch_moe.py
