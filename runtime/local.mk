# The runtime: knows the plan and the driver, and includes nothing from src/.
libstem_rt_la_SOURCES += %D%/dtype.c %D%/dtype.h %D%/plan.h
