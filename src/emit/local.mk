# From scheduled programs to plans and CUDA C.
libstem_core_la_SOURCES += %D%/cuda.c %D%/emit.h %D%/part.h %D%/plan.c %D%/steps.c
