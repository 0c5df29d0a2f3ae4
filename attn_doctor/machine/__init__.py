"""The one door to the machine: processes, the interpreter under examination, private folders."""
