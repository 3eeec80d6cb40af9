# House rules that a machine can check.
TESTS += %D%/layers.sh
EXTRA_DIST += %D%/layers.sh
