"""The data files that lie beside the recipes: GPUs, releases of torch, wheels, measured numbers, a site's policy."""
