"""Cures: a plan in the open, changes under a journal, a proof by examining again, and everything put back otherwise.

The only layer that changes anything outside attn-doctor's own temporary folders.
"""
