# Sources and tests of src/lanes/.
