"""Runs traced programs, and makes facts of what they answered."""
