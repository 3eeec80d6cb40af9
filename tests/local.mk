# Sources and tests of tests/.
