# The schedule as text, DOT and trace; the comparison of plans.
TESTS += %D%/run.sh
EXTRA_DIST += %D%/run.sh %D%/check_trace.py %D%/forks.stem %D%/expect
