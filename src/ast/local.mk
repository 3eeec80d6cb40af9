# Sources and tests of src/ast/.
