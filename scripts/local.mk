# The README's two commands, and what they share.
EXTRA_DIST += %D%/check.sh %D%/demo.sh %D%/setup.sh %D%/has_gpu.sh
