"""Whole cases, end to end: a command line is typed, an exit status and a report come back."""
