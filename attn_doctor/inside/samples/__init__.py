"""Samples: tiny forward and backward passes that show by behaviour what a version number only suggests.

A sample module has `run(device, virtual_gpu, tell)`, for a forked child, and `cells(device, ended,
reason)`, for its parent.
"""
