# The verifier against random plans, their mutants, and the truth by brute force; and random programs through all
# passes, emission, the verifier and the CPU device.
check_PROGRAMS += %D%/test_mutants %D%/test_pipeline
%C%_test_mutants_SOURCES = %D%/exact.c %D%/model.h %D%/mutate.c %D%/random.c %D%/test_mutants.c
%C%_test_mutants_LDADD = libstem-core.la libstem-rt.la
%C%_test_pipeline_SOURCES = %D%/test_pipeline.c tests/prop/flow.c tests/prop/flow.h tests/prop/gen.c tests/prop/gen.h \
	tests/prop/shrink.c tests/prop/shrink.h
%C%_test_pipeline_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_pipeline_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/test_mutants %D%/test_pipeline

# The same question for plans that the compiler emits.
check_PROGRAMS += %D%/test_emitted
%C%_test_emitted_SOURCES = %D%/hazard.c %D%/model.h %D%/mutate.c %D%/random.c %D%/test_emitted.c tests/cases/kit.c \
	tests/cases/kit.h tests/prop/flow.c tests/prop/flow.h tests/prop/gen.c tests/prop/gen.h
%C%_test_emitted_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop -DTOP='"$(abs_top_srcdir)"'
%C%_test_emitted_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/test_emitted
