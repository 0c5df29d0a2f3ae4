"""Runs trials of attention kernels and makes facts of the results."""
