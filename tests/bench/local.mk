# Sources and tests of tests/bench/.
