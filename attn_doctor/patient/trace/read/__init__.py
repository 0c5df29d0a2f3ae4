"""Reads a recording: the dtype path of each operand, what changed it, and what else would."""
