# Measures lanes on the device; skipped (77) where there is none.
EXTRA_DIST += %D%/calibrate.sh %D%/generate.py %D%/relane.sh %D%/relane_table.py %D%/torch_side_first.py
TESTS += %D%/relane.sh
if HAVE_CUPTI_HEADERS
check_PROGRAMS += %D%/calibrate
%C%_calibrate_SOURCES = %D%/calibrate.c %D%/gpu.c %D%/gpu.h
%C%_calibrate_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_HOME_DIR)/include -isystem $(CUDA_HOME_DIR)/extras/CUPTI/include
%C%_calibrate_LDADD = libstem-core.la libstem-rt.la
TESTS += %D%/calibrate.sh
endif
