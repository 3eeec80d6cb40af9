# Measures lanes on the device; skipped (77) where there is none.
EXTRA_DIST += %D%/calibrate.sh %D%/generate.py %D%/kinds.py %D%/relane.sh %D%/relane_table.py \
	%D%/runtime.sh %D%/runtime_program.cu %D%/torch_side_first.py %D%/waits.sh
TESTS += %D%/relane.sh %D%/runtime.sh %D%/waits.sh
if HAVE_CUPTI_HEADERS
check_PROGRAMS += %D%/calibrate %D%/relane_call
TESTS += %D%/relane_call
%C%_relane_call_SOURCES = %D%/gpu.c %D%/gpu.h %D%/gpu_driver.h %D%/gpu_nodes.c %D%/relane_call.c
%C%_relane_call_CPPFLAGS = $(%C%_calibrate_CPPFLAGS)
%C%_relane_call_LDADD = libstem-core.la libstem-rt.la
%C%_calibrate_SOURCES = %D%/calibrate.c %D%/gpu.c %D%/gpu.h %D%/gpu_driver.h %D%/gpu_nodes.c
%C%_calibrate_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME_DIR)/include -isystem $(CUDA_HOME_DIR)/extras/CUPTI/include
%C%_calibrate_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/calibrate.sh
endif
