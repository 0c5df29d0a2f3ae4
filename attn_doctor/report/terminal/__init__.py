"""Pages for a person at a terminal; plain text when output is not a terminal."""
