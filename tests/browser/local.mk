# The report in a headless Chromium, if there is one.
TESTS += %D%/run.sh
EXTRA_DIST += %D%/run.sh %D%/cdp.py %D%/test_page.py %D%/hostile.stem %D%/folded.stem
