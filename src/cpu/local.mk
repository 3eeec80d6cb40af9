# The CPU device.
libstem_core_la_SOURCES += %D%/cpu.h
