# Sources and tests of src/sema/.
