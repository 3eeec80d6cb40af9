# Fuzzing: a short deterministic run in `make check`, and libFuzzer targets under --enable-fuzz.
check_PROGRAMS += %D%/mutate
TESTS += %D%/mutate
%C%_mutate_SOURCES = %D%/mutate.c %D%/one_input.c %D%/one_input.h
%C%_mutate_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_mutate_LDADD = libstem-core.la libstem-rt.la

if FUZZ
noinst_PROGRAMS += %D%/fuzz_front
%C%_fuzz_front_SOURCES = %D%/fuzz_front.c %D%/one_input.c %D%/one_input.h
%C%_fuzz_front_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_front_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif

EXTRA_DIST += %D%/stem.dict
