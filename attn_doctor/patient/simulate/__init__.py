"""A simulated GPU: the rules of CUDA, applied on a machine without one.

Imports nothing itself: the rules for autocast need torch, those for Triton need Triton, and a patient may have only one
of them.
"""
