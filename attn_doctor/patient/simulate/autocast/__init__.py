"""CUDA's autocast on CPU tensors: the dtype that each operation would give."""
