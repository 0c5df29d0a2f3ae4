"""Stand-ins for attention libraries that are not installed or cannot run here: with their checks, without their
kernels.
"""
