"""Attention kernels run one by one on this node's GPUs, each held against a reference computed on the same GPU.

cells.py says what one trial is, matrix.py which trials there are, ../libraries how each kernel is called and what its
contract leaves out, problems.py what it is given, truth.py what must come out and how exactly, trial.py one trial,
speed.py how fast, run.py the task: a child for each GPU, and a fresh one when a kernel takes its child along.
explain.py is the other task: which backend SDPA picks, and why not the others.
"""
