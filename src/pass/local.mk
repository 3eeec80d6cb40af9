# Passes over the program.
libstem_core_la_SOURCES += \
	%D%/cost.c %D%/deps.c %D%/events.c %D%/events.h %D%/graph.c %D%/graph.h %D%/hb.c %D%/hb.h %D%/order.c %D%/pass.c \
	%D%/pass.def %D%/pass.h %D%/print.c %D%/reach.c %D%/streams.c %D%/streams.h %D%/streams_auto.c
