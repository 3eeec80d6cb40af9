# What is installed, and that programs can be built against it.
TESTS += %D%/install.sh
EXTRA_DIST += %D%/install.sh %D%/symbols.txt %D%/fenced.awk %D%/callers.cc %D%/main.c
