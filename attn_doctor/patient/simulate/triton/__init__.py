"""Triton for a GPU that is not there: launches are recorded, kernels really compiled."""
