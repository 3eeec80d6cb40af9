# Scanner and parser. The tarball carries what flex and bison make of them.
libstem_core_la_SOURCES += %D%/foreign.c %D%/front.h %D%/lexer.l %D%/make.c %D%/parse.h %D%/parser.y
BUILT_SOURCES += %D%/parser.h
# BUILT_SOURCES alone does not order a build of one target.
%D%/lexer.lo %D%/make.lo: %D%/parser.h
