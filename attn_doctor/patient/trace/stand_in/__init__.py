"""Attention libraries that are not installed or cannot run here: their checks are kept, their kernels are not."""
