"""Probes of the node itself: operating system, driver, GPUs, Xids, and the CUDA toolkit."""
