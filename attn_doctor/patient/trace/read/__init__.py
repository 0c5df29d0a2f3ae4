"""Reads a recording: the dtype path of each operand, the call that changed it, and further changes behind it."""
