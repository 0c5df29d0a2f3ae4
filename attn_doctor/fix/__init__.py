"""Carries out plans: journals each change before making it, examines again afterwards, and undoes the run when that
fails.

The only package that changes anything outside attn-doctor's own temporary folders.
"""
