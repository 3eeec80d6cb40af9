# Sources and tests of grammar/.
