"""The format of recipe files: every fault of a file is told at once, with its line."""
