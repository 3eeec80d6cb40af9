# Passes over the program.
libstem_core_la_SOURCES += \
	%D%/budget.c %D%/budget.h %D%/cost.c %D%/deps.c %D%/events.c %D%/events.h %D%/fuse.c %D%/fuse.h %D%/fuse_epilogue.c %D%/fuse_heads.c %D%/fuse_norm.c %D%/fuse_query.c %D%/fuse_quantize.c %D%/fuse_store.c %D%/graph.c %D%/graph.h %D%/hb.c %D%/hb.h \
	%D%/inplace.c %D%/lanes.c %D%/library.c %D%/lanes.h %D%/lanes_repair.c %D%/lifetime.c %D%/lifetime.h %D%/memory.c %D%/order.c %D%/order.h %D%/order_why.c %D%/overlap.c %D%/overlap.h %D%/pass.c %D%/pass.def %D%/pdl.h %D%/pass.h %D%/pdl.c %D%/place.c %D%/place.h \
	%D%/place_sorted.c %D%/place_sweep.c %D%/print.c %D%/reach.c %D%/room.c %D%/simulate.c %D%/streams.c %D%/streams.h %D%/streams_auto.c %D%/throttle.c \
	%D%/throttle.h
