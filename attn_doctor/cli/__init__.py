"""The command line: one file a command. Parses, calls the stages, chooses an exit status."""
