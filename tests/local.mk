# Sources and tests of tests/.
EXTRA_DIST += %D%/valgrind.sh
