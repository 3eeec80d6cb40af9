# The runtime: knows the plan and the driver, and includes nothing from src/.
libstem_rt_la_SOURCES += \
	%D%/dtype.c %D%/dtype.h %D%/plan.c %D%/plan.h %D%/plan_check.c %D%/plan_check.h %D%/plan_json.c \
	%D%/plan_names.h %D%/plan_read.c
