"""Tensors that take no memory and have no values, and that no program can distinguish from others.

A hollow tensor is a plain torch.Tensor on the CPU. Its storage is an address range without pages (memory.py), and no
kernel ever runs on it: a dispatch mode (mode.py) uses torch's shape rules to compute the form of an operation's result
(shapes.py) and creates that, hollow again. A program that checks a tensor's class, looks for a tracing mode, or asks
whether something is being compiled gets the answer of an ordinary run. Libraries recognize a class of its own, such as
torch's FakeTensor, as a trace, and then build masks and repeat heads as no real run would.

Small tensors that do not depend on hollow ones are really computed: positions, lengths, masks, counters. Conditions on
them give the same answer as in a real run. Reading a value that depends on a hollow tensor raises NoValues, or the
error of torch's own shape rules (endings.NO_VALUES).
"""

from .memory import NoRoom
from .mode import Hollow, NoValues

__all__ = ["Hollow", "NoRoom", "NoValues"]
