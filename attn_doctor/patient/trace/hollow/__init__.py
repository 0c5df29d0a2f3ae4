"""Tensors that take no memory and have no values, and that nothing can tell from others.

A hollow tensor is a plain torch.Tensor on the CPU. Its storage lies in addresses behind which there are no pages
(memory.py), and no kernel ever runs on it: a dispatch mode (mode.py) asks torch's shape rules what an op would return
(shapes.py) and makes that, hollow again. A program that asks for a tensor's class, for a mode that traces, or whether
something is being compiled gets the answer of an ordinary run, because it is one: a tensor of a class of its own, as
torch's FakeTensor is, is taken by libraries for a trace, and they build masks and repeat heads for it that no run
would have.

What is small and rests on no hollow tensor is computed for real: positions, lengths, masks, counters. Conditions on
those are answered as in any run. A value that rests on a hollow tensor is refused, by NoValues or by what torch's
own shape rules raise (endings.NO_VALUES).
"""

from .memory import NoRoom
from .mode import Hollow, NoValues

__all__ = ["Hollow", "NoRoom", "NoValues"]
