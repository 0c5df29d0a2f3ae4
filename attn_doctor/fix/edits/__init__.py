"""One file for each kind of action."""
