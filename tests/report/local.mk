# The schedule as text, DOT and trace; the comparison of plans.
TESTS += %D%/run.sh %D%/profile.sh
EXTRA_DIST += %D%/run.sh %D%/profile.sh %D%/check_profile.py %D%/look_alikes.stem %D%/check_trace.py %D%/forks.stem %D%/reasons.stem %D%/interleaved.stem %D%/narrow.stem %D%/expect
