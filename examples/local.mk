# Sources and tests of examples/.
