# Sources and tests of src/emit/.
