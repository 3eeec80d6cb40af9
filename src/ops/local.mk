# Ops, one folder each.
libstem_core_la_SOURCES += %D%/op.h
