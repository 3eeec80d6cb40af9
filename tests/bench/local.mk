# Sources and tests of tests/bench/.
EXTRA_DIST += %D%/compile.sh %D%/run.sh %D%/peers/torch_moe.py
