# Sources and tests of docs/.
