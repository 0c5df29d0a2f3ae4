"""Diagnosis -> words. The only layer that prints."""
