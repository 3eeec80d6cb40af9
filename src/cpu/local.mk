# The CPU device. shim.hpp goes in front of inline kernels, which the host's compiler then compiles.
libstem_core_la_SOURCES += %D%/compile.c %D%/cpu.c %D%/cpu.h %D%/device.h %D%/guard.c %D%/guard.h %D%/kernel.c %D%/order.c
EXTRA_DIST += %D%/shim.hpp
nodist_libstem_core_la_SOURCES += %D%/shim.c
CLEANFILES += %D%/shim.c
%D%/shim.c: %D%/shim.hpp
	$(AM_V_GEN)$(MKDIR_P) %D% && { \
	  echo 'extern const char stem_cpu_shim[];'; echo 'const char stem_cpu_shim[] = {'; \
	  od -An -v -tu1 $(top_srcdir)/%D%/shim.hpp | awk '{ gsub(/^ +/, ""); gsub(/ +/, ","); print $$0 "," }'; \
	  echo '0};'; } > $@.tmp && mv $@.tmp $@
