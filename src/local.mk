# Sources and tests of src/.
