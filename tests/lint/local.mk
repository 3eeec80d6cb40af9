# Sources and tests of tests/lint/.
