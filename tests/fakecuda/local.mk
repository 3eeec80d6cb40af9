# Sources and tests of tests/fakecuda/.
