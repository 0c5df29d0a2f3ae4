"""Products of two dtypes, which a GPU refuses without autocast: for test_strictness and, on a GPU, test_on_gpu."""

import torch
from torch.nn import functional as F

OPS = {
    "linear": lambda a, b: F.linear(a, b),
    "matmul": lambda a, b: torch.matmul(a.expand(2, 8, 8), b.expand(2, 8, 8)),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "conv1d": lambda a, b: F.conv1d(a.view(1, 8, 8), b.view(8, 8, 1)),
    "cdist": lambda a, b: torch.cdist(a, b),
    "cross": lambda a, b: torch.cross(a[:, :3], b[:, :3], dim=1),
    "addmm": lambda a, b: torch.addmm(a, a, b),
}


def product(op, first="float16", second="float32"):
    a, b = torch.ones(8, 8, dtype=getattr(torch, first)), torch.ones(8, 8, dtype=getattr(torch, second))
    if torch.cuda.is_available():
        a, b = a.cuda(), b.cuda()
    return lambda: OPS[op](a, b)
