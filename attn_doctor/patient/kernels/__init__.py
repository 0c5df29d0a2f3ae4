"""Runs attention kernels one by one on this node's GPUs; compares each with a reference computed on the same GPU.

cells.py defines a trial, matrix.py the set of trials, ../libraries the calls and contracts of the kernels, problems.py
the inputs, truth.py the expected results and tolerances, trial.py runs one trial, speed.py measures, run.py is the
task: a child for each GPU, and a new one when a kernel kills its child. explain_sdpa.py is the other task: which
backend SDPA chooses, and why not the others.
"""
