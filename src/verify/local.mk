# The verifier.
libstem_core_la_SOURCES += %D%/verify.h
