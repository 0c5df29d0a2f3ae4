"""Pages for a person at a terminal; plain where there is none."""
