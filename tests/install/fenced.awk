# Prints the fenced block whose first line contains NAME (-v name=NAME).
/^```/ { if (on) { on = 0 } else { fence = 1 } next }
fence { fence = 0; if (index($0, name)) on = 1 }
on { print }
