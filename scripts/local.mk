# Sources and tests of scripts/.
