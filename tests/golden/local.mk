# Sources and tests of tests/golden/.
