"""CUDA's autocast on CPU tensors: which dtype each op would give."""
