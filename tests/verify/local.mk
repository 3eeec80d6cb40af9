# The verifier against random plans, their mutants, and the truth by brute force.
check_PROGRAMS += %D%/test_mutants
%C%_test_mutants_SOURCES = %D%/exact.c %D%/model.h %D%/mutate.c %D%/random.c %D%/test_mutants.c
%C%_test_mutants_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/test_mutants
