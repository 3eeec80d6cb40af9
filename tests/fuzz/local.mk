# Sources and tests of tests/fuzz/.
