# Ops, one folder each: NAME.c and NAME_ref.c below, NAME.cuh in STEM_CUH.
libstem_core_la_SOURCES += %D%/epilogue.c %D%/epilogue.h %D%/headers.h %D%/op.h %D%/ops.def %D%/ref.c %D%/ref.h %D%/registry.c \
	%D%/rule.c %D%/rule.h %D%/strided.c %D%/strided.h

libstem_core_la_SOURCES += %D%/argmax/argmax.c %D%/argmax/argmax.h %D%/argmax/argmax_ref.c
libstem_core_la_SOURCES += %D%/copy/copy.c %D%/copy/copy.h %D%/copy/copy_ref.c
libstem_core_la_SOURCES += %D%/embed/embed.c %D%/embed/embed.h %D%/embed/embed_ref.c
libstem_core_la_SOURCES += %D%/pointwise/expr.c %D%/pointwise/expr.h %D%/pointwise/pointwise.c \
	%D%/pointwise/pointwise.h %D%/pointwise/pointwise_lower.c %D%/pointwise/pointwise_ref.c
libstem_core_la_SOURCES += %D%/rmsnorm/add_rmsnorm.c %D%/rmsnorm/rmsnorm.c %D%/rmsnorm/rmsnorm.h %D%/rmsnorm/rmsnorm_quantize.c \
	%D%/rmsnorm/rmsnorm_ref.c
libstem_core_la_SOURCES += %D%/quantize_f8/quantize_f8.c %D%/quantize_f8/quantize_f8.h %D%/quantize_f8/quantize_f8_ref.c
libstem_core_la_SOURCES += %D%/silu_mul/silu_mul.c %D%/silu_mul/silu_mul.h %D%/silu_mul/silu_mul_ref.c
libstem_core_la_SOURCES += %D%/zero/zero.c %D%/zero/zero.h %D%/zero/zero_ref.c

libstem_core_la_SOURCES += %D%/linear/linear.c %D%/linear/linear.h %D%/linear/linear_ref.c %D%/linear/norm_linear.c \
	%D%/linear/norm_lower.c %D%/linear/stream.c
libstem_core_la_SOURCES += %D%/linear/format.c %D%/linear/format.h %D%/linear/format_ref.c %D%/linear/packed.c \
	%D%/linear/even.c %D%/linear/even.h %D%/linear/wide.c %D%/linear/wide.h
libstem_core_la_SOURCES += %D%/matmul/matmul.c %D%/matmul/matmul.h
libstem_core_la_SOURCES += %D%/experts/experts.c %D%/experts/experts.h %D%/experts/experts_ref.c
libstem_core_la_SOURCES += %D%/experts/up.c %D%/experts/down.c %D%/experts/packed.c %D%/experts/wide.c %D%/experts/one_wide.c
libstem_core_la_SOURCES += %D%/heads_linear/heads_linear.c %D%/heads_linear/heads_linear.h \
	%D%/heads_linear/heads_linear_ref.c
libstem_core_la_SOURCES += %D%/gqa_store/gqa_store.c %D%/gqa_store/gqa_store.h %D%/gqa_store/gqa_store_ref.c
libstem_core_la_SOURCES += %D%/mla/mla.h %D%/mla/mla_query.c %D%/mla/mla_ref.c %D%/mla/mla_store.c %D%/mla/norm_query.c
libstem_core_la_SOURCES += %D%/rope/rope.c %D%/rope/rope.h %D%/rope/rope_ref.c
libstem_core_la_SOURCES += %D%/route/route.c %D%/route/route.h %D%/route/route_ref.c
libstem_core_la_SOURCES += %D%/attention/attention.c %D%/attention/attention.h %D%/attention/attention_ref.c \
	%D%/attention/combine.c %D%/attention/gqa_part.c %D%/attention/mla_part.c %D%/attention/mla_store_part.c %D%/attention/mla_wgmma.c %D%/attention/part.c
libstem_core_la_SOURCES += %D%/attention_heads/attention_heads.c %D%/attention_heads/attention_heads.h \
	%D%/attention_heads/attention_heads_ref.c
libstem_core_la_SOURCES += %D%/cache_store/cache_store.c %D%/cache_store/cache_store.h %D%/cache_store/cache_store_ref.c
libstem_core_la_SOURCES += %D%/index_scores/index_scores.c %D%/index_scores/index_scores.h %D%/index_scores/index_scores_ref.c
libstem_core_la_SOURCES += %D%/index_store/index_store.c %D%/index_store/index_store.h %D%/index_store/index_store_ref.c
libstem_core_la_SOURCES += %D%/top_k/top_k.c %D%/top_k/top_k.h %D%/top_k/top_k_ref.c

# Device code, built into the library as text; the name without .cuh is what stem_op_header() knows it by.
STEM_CUH = \
	%D%/common/common.cuh \
	%D%/linear/stream.cuh \
	%D%/linear/linear.cuh \
	%D%/linear/norm_linear.cuh \
	%D%/linear/formats.cuh \
	%D%/linear/packed_stream.cuh \
	%D%/linear/fixed.cuh \
	%D%/linear/linear_packed.cuh \
	%D%/linear/linear_even.cuh \
	%D%/linear/wgmma.cuh \
	%D%/linear/linear_wide.cuh \
	%D%/experts/groups.cuh \
	%D%/experts/experts.cuh \
	%D%/experts/one.cuh \
	%D%/experts/experts_down.cuh \
	%D%/experts/group_stream.cuh \
	%D%/experts/experts_packed.cuh \
	%D%/experts/one_packed.cuh \
	%D%/experts/down_slots.cuh \
	%D%/experts/experts_packed_plain.cuh \
	%D%/experts/experts_down_wide.cuh \
	%D%/experts/one_wide.cuh \
	%D%/heads_linear/heads_linear.cuh \
	%D%/mla/mla.cuh \
	%D%/mla/norm_query.cuh \
	%D%/gqa_store/gqa_store.cuh \
	%D%/rope/rope.cuh \
	%D%/route/route.cuh \
	%D%/attention/attention.cuh \
	%D%/attention/gqa_part.cuh \
	%D%/attention/mla_part.cuh \
	%D%/attention/mla_new.cuh \
	%D%/attention/mla_wgmma.cuh \
	%D%/attention_heads/attention_heads.cuh \
	%D%/cache_store/cache_store.cuh \
	%D%/index_scores/index_part.cuh \
	%D%/index_scores/index_wide.cuh \
	%D%/index_scores/index_scores.cuh \
	%D%/index_store/index_store.cuh \
	%D%/top_k/top_k.cuh \
	%D%/top_k/top_few.cuh \
	%D%/argmax/argmax.cuh \
	%D%/embed/embed.cuh \
	%D%/pointwise/pointwise.cuh \
	%D%/quantize_f8/quantize_f8.cuh \
	%D%/rmsnorm/rmsnorm.cuh \
	%D%/rmsnorm/rmsnorm_quantize.cuh \
	%D%/silu_mul/silu_mul.cuh

EXTRA_DIST += $(STEM_CUH) scripts/embed.sh
nodist_libstem_core_la_SOURCES += %D%/headers.c
CLEANFILES += %D%/headers.c
%D%/headers.c: $(STEM_CUH) scripts/embed.sh
	$(AM_V_GEN)$(MKDIR_P) %D% && $(SHELL) $(top_srcdir)/scripts/embed.sh ops/headers.h stem_header stem_headers .cuh $(top_srcdir) $(STEM_CUH) > $@.tmp && mv $@.tmp $@
