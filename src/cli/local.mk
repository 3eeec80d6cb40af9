# Sources and tests of src/cli/.
