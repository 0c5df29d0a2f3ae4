"""Runs traced programs and makes facts of their answers."""
