"""Access to the machine: processes, the interpreter under examination, temporary folders, files."""
