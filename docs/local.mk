# Sources and tests of docs/.
EXTRA_DIST += %D%/lanes.md
