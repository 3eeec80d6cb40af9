# From scheduled programs to plans and CUDA C.
libstem_core_la_SOURCES += %D%/cuda.c %D%/emit.h %D%/part.h %D%/plan.c %D%/steps.c
# From plans to C that another project compiles in: the templates are built into the library as text.
libstem_core_la_SOURCES += %D%/host.c %D%/host.h %D%/host_names.c %D%/host_tables.c %D%/host_text.c %D%/host_text.h
STEM_HOST_TEXT = %D%/host/api.h.in %D%/host/types.c.in %D%/host/base.c.in %D%/host/order.c.in %D%/host/memory.c.in %D%/host/image.c.in %D%/host/matmul.c.in \
	%D%/host/create.c.in %D%/host/launch.c.in %D%/host/graph.c.in %D%/host/make.mk.in %D%/host/cmake.in \
	%D%/host/cmakelists.in
EXTRA_DIST += $(STEM_HOST_TEXT) scripts/embed_text.sh
nodist_libstem_core_la_SOURCES += %D%/host_templates.c
CLEANFILES += %D%/host_templates.c
%D%/host_templates.c: $(STEM_HOST_TEXT) scripts/embed_text.sh
	$(AM_V_GEN)$(MKDIR_P) %D% && $(SHELL) $(top_srcdir)/scripts/embed_text.sh $(top_srcdir) $(STEM_HOST_TEXT) > $@.tmp && mv $@.tmp $@
