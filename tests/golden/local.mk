# Golden tests: files with expected output. `make update-golden` rewrites the expectations.
check_PROGRAMS += %D%/front_dump
%C%_front_dump_SOURCES = %D%/front_dump.c
%C%_front_dump_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/run.sh
EXTRA_DIST += %D%/run.sh %D%/diag %D%/explain %D%/sched %D%/plan
