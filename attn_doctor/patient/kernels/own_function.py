"""A user's function, named `module:function`, with the arguments of scaled_dot_product_attention."""

from __future__ import annotations

import importlib
from typing import Callable

import torch

from ..libraries import sdpa
from .problems import Problem
from .registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    module, _, name = backend.name.partition(":")
    function = getattr(importlib.import_module(module), name)
    given = sdpa.arguments(problem)
    return lambda: function(problem.q, problem.k, problem.v, **given)
