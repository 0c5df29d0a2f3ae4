"""Runs trials of attention kernels, and makes facts of what came of them."""
