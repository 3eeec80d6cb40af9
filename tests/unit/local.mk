# Device code on the CPU (no CUnit, no CUDA): the emulator stands in for CUDA's headers.
check_PROGRAMS += %D%/test_device
TESTS += %D%/test_device
%C%_test_device_SOURCES = %D%/test_device.cc %D%/emulate/check.h %D%/emulate/element.h %D%/emulate/emulate.h %D%/emulate/cuda_bf16.h %D%/emulate/cuda_fp16.h \
	%D%/emulate/cuda_fp8.h
%C%_test_device_CPPFLAGS = -U_FORTIFY_SOURCE -I$(top_srcdir)/tests/unit/emulate -I$(top_srcdir)/tests/unit -I$(top_srcdir)/src/ops \
	$(AM_CPPFLAGS)
%C%_test_device_CXXFLAGS = $(AM_CXXFLAGS) -O2 -Wno-unknown-pragmas
%C%_test_device_LDADD = libstem-core.la libstem-rt.la
check_PROGRAMS += %D%/test_device_formats
TESTS += %D%/test_device_formats
%C%_test_device_formats_SOURCES = %D%/test_device_formats.cc %D%/emulate/check.h %D%/emulate/element.h %D%/emulate/emulate.h %D%/emulate/formats.h
%C%_test_device_formats_CPPFLAGS = $(%C%_test_device_CPPFLAGS)
%C%_test_device_formats_CXXFLAGS = $(%C%_test_device_CXXFLAGS)
%C%_test_device_formats_LDADD = $(%C%_test_device_LDADD)
check_PROGRAMS += %D%/test_device_norm
TESTS += %D%/test_device_norm
%C%_test_device_norm_SOURCES = %D%/test_device_norm.cc %D%/emulate/check.h %D%/emulate/element.h %D%/emulate/emulate.h
%C%_test_device_norm_CPPFLAGS = $(%C%_test_device_CPPFLAGS)
%C%_test_device_norm_CXXFLAGS = $(%C%_test_device_CXXFLAGS)
%C%_test_device_norm_LDADD = $(%C%_test_device_LDADD)
check_PROGRAMS += %D%/test_device_query
TESTS += %D%/test_device_query
%C%_test_device_query_SOURCES = %D%/test_device_query.cc %D%/emulate/check.h %D%/emulate/element.h %D%/emulate/emulate.h
%C%_test_device_query_CPPFLAGS = $(%C%_test_device_CPPFLAGS)
%C%_test_device_query_CXXFLAGS = $(%C%_test_device_CXXFLAGS)
%C%_test_device_query_LDADD = $(%C%_test_device_LDADD)
check_PROGRAMS += %D%/test_device_attention
TESTS += %D%/test_device_attention
%C%_test_device_attention_SOURCES = %D%/test_device_attention.cc %D%/emulate/check.h %D%/emulate/element.h %D%/emulate/emulate.h %D%/emulate/wgmma.h
%C%_test_device_attention_CPPFLAGS = $(%C%_test_device_CPPFLAGS)
%C%_test_device_attention_CXXFLAGS = $(%C%_test_device_CXXFLAGS)
%C%_test_device_attention_LDADD = $(%C%_test_device_LDADD)

# Unit tests (CUnit), one program for each area: UNIT_TESTS += %D%/test_NAME, with its sources and LDADD below.
if HAVE_CUNIT
UNIT_TESTS =
UNIT_LDADD = libstem-core.la libstem-rt.la -lcunit

UNIT_TESTS += %D%/test_base
%C%_test_base_SOURCES = %D%/test_base.c %D%/unit.h
%C%_test_base_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_plan
%C%_test_plan_SOURCES = %D%/test_plan.c %D%/unit.h
%C%_test_plan_LDADD = libstem-rt.la -lcunit

UNIT_TESTS += %D%/test_compile
%C%_test_compile_SOURCES = %D%/test_compile.c %D%/unit.h
%C%_test_compile_LDADD = libstem-rt.la -lcunit

UNIT_TESTS += %D%/test_pass
%C%_test_pass_SOURCES = %D%/test_pass.c %D%/unit.h tests/prop/flow.c tests/prop/flow.h
%C%_test_pass_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_pass_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_costs
%C%_test_costs_SOURCES = %D%/test_costs.c %D%/unit.h
%C%_test_costs_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_lower
%C%_test_lower_SOURCES = %D%/test_lower.c %D%/unit.h
%C%_test_lower_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_fuse
%C%_test_fuse_SOURCES = %D%/test_fuse.c %D%/unit.h tests/prop/flow.c tests/prop/flow.h
%C%_test_fuse_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_fuse_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_room
%C%_test_room_SOURCES = %D%/test_room.c %D%/unit.h tests/prop/flow.c tests/prop/flow.h
%C%_test_room_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_room_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_pass_layers
%C%_test_pass_layers_SOURCES = %D%/test_pass_layers.c %D%/unit.h tests/prop/flow.c tests/prop/flow.h
%C%_test_pass_layers_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_pass_layers_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_emit
%C%_test_emit_SOURCES = %D%/test_emit.c %D%/unit.h
%C%_test_emit_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_names
%C%_test_names_SOURCES = %D%/test_names.c %D%/unit.h
%C%_test_names_LDADD = libstem-core.la libstem-rt.la -lcunit
UNIT_TESTS += %D%/test_checkpoint
%C%_test_checkpoint_SOURCES = %D%/test_checkpoint.c %D%/unit.h
%C%_test_checkpoint_LDADD = libstem-rt.la -lcunit
UNIT_TESTS += %D%/test_runtime
%C%_test_runtime_SOURCES = %D%/test_runtime.c %D%/unit.h
%C%_test_runtime_LDADD = libstem-rt.la -lcunit
%C%_test_runtime_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_CUPTI_HEADERS
%C%_test_runtime_CPPFLAGS += -isystem $(CUDA_HOME_DIR)/include -isystem $(CUDA_HOME_DIR)/extras/CUPTI/include
endif

UNIT_TESTS += %D%/test_heavy
%C%_test_heavy_SOURCES = %D%/test_heavy.c %D%/unit.h
%C%_test_heavy_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_attention
%C%_test_attention_SOURCES = %D%/test_attention.c %D%/unit.h
%C%_test_attention_LDADD = $(UNIT_LDADD) -lm

UNIT_TESTS += %D%/test_kernels
%C%_test_kernels_SOURCES = %D%/test_kernels.c %D%/unit.h
%C%_test_kernels_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_verify
%C%_test_verify_SOURCES = %D%/test_verify.c %D%/unit.h tests/prop/flow.c tests/prop/flow.h
%C%_test_verify_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/prop
%C%_test_verify_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_explain
%C%_test_explain_SOURCES = %D%/test_explain.c %D%/front.h %D%/unit.h
%C%_test_explain_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_front
%C%_test_front_SOURCES = %D%/test_front.c %D%/front.h %D%/unit.h
%C%_test_front_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_dim
%C%_test_dim_SOURCES = %D%/test_dim.c %D%/unit.h
%C%_test_dim_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_ir
%C%_test_ir_SOURCES = %D%/test_ir.c %D%/unit.h
%C%_test_ir_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_read
%C%_test_read_SOURCES = %D%/test_read.c %D%/unit.h
%C%_test_read_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_ops
%C%_test_ops_SOURCES = %D%/test_ops.c %D%/op_run.h %D%/unit.h
%C%_test_ops_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_latent
%C%_test_latent_SOURCES = %D%/test_latent.c %D%/op_run.h %D%/unit.h
%C%_test_latent_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_fused_ops
%C%_test_fused_ops_SOURCES = %D%/test_fused_ops.c %D%/op_run.h %D%/unit.h
%C%_test_fused_ops_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_expr
%C%_test_expr_SOURCES = %D%/test_expr.c %D%/unit.h
%C%_test_expr_LDADD = $(UNIT_LDADD)

UNIT_TESTS += %D%/test_profile
%C%_test_profile_SOURCES = %D%/test_profile.c %D%/unit.h
%C%_test_profile_LDADD = $(UNIT_LDADD)
UNIT_TESTS += %D%/test_report
%C%_test_report_SOURCES = %D%/test_report.c %D%/unit.h
%C%_test_report_LDADD = $(UNIT_LDADD)

check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
