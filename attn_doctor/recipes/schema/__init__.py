"""The format of recipe files: reports every fault of a file at once, with its path in the file."""
