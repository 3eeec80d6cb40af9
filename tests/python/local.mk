# The Python module, without torch and under the stand-in driver.
TESTS += %D%/run.sh
EXTRA_DIST += %D%/run.sh %D%/test_module.py
