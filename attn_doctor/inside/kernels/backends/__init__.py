"""How each kernel is called: `prepare(problem, backend)` gives a function that computes the output.

Tensors come as (batch, heads, length, head_dim) and the output goes back so. All of these import torch.
"""
