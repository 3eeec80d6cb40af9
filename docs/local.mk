# Documentation.
dist_man_MANS += %D%/mainstem.1
EXTRA_DIST += %D%/architecture.md %D%/cli.md %D%/lanes.md %D%/language.md %D%/verify.md
# Sources and tests of docs/.
EXTRA_DIST += %D%/lanes.md
EXTRA_DIST += %D%/testing.md
