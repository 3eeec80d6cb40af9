# Sources and tests of tests/gpu/.
