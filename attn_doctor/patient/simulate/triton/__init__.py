"""Triton for a simulated GPU: launches are recorded, kernels are really compiled."""
