"""Reads the data files that are not recipes: GPUs, releases of torch, wheels, measured speeds, a site's policy."""
