# Sources and tests of tests/prop/.
