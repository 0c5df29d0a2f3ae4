"""A GPU that is not there: the rules by which CUDA would run, applied on a machine without one.

Nothing is imported here: the rules for autocast need torch, those for Triton need Triton, and a patient may
have either alone.
"""
