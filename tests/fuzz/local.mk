# Fuzzing: short deterministic runs in `make check`, and libFuzzer targets under --enable-fuzz, which run.sh runs.
FUZZ_ONE = %D%/one_input.c %D%/one_input.h %D%/one_ir.c %D%/one_plan.c
check_PROGRAMS += %D%/mutate %D%/mutate_readers
TESTS += %D%/mutate %D%/mutate_readers
%C%_mutate_SOURCES = %D%/mutate.c %D%/mutation.c %D%/mutation.h %D%/one_input.c %D%/one_input.h
%C%_mutate_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
%C%_mutate_LDADD = libstem-core.la libstem-rt.la
%C%_mutate_readers_SOURCES = %D%/mutate_readers.c %D%/mutation.c %D%/mutation.h $(FUZZ_ONE) tests/cases/kit.c \
	tests/cases/kit.h
%C%_mutate_readers_CPPFLAGS = $(AM_CPPFLAGS) -DTOP='"$(abs_top_srcdir)"'
%C%_mutate_readers_LDADD = libstem-core.la libstem-rt.la

if FUZZ
noinst_PROGRAMS += %D%/fuzz_front %D%/fuzz_ir %D%/fuzz_plan %D%/fuzz_graph %D%/fuzz_costs
%C%_fuzz_costs_SOURCES = %D%/fuzz_costs.c $(FUZZ_ONE)
%C%_fuzz_costs_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_costs_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_front_SOURCES = %D%/fuzz_front.c $(FUZZ_ONE)
%C%_fuzz_front_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_front_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_ir_SOURCES = %D%/fuzz_ir.c $(FUZZ_ONE)
%C%_fuzz_ir_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_ir_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_plan_SOURCES = %D%/fuzz_plan.c $(FUZZ_ONE)
%C%_fuzz_plan_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_plan_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_graph_SOURCES = %D%/fuzz_graph.c $(FUZZ_ONE)
%C%_fuzz_graph_LDADD = libstem-core.la libstem-rt.la
%C%_fuzz_graph_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif

EXTRA_DIST += %D%/run.sh %D%/stem.dict %D%/ir.dict %D%/plan.dict %D%/graph.dict
