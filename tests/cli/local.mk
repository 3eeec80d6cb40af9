# The command line as a user meets it, without a GPU.
TESTS += %D%/main.sh %D%/lanes.sh %D%/models.sh %D%/relane.sh
EXTRA_DIST += %D%/main.sh %D%/lanes.sh %D%/models.sh %D%/relane.sh %D%/data/layers.dot %D%/data/layers.out
