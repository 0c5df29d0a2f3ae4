"""Fixes the findings of `check`: `fix.py` has the sequence of steps, the other files its parts."""
