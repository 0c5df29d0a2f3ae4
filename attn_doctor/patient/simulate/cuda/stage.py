"""Simulates a node with a GPU for an import that needs one: torch.cuda and Triton answer as they would there.

Elsewhere: CUDA's autocast rules and the redirection of tensors, which only a traced run needs (trace/rules.py).
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
from typing import Iterator, Optional

from . import simulated_gpu

ASSUMED: simulated_gpu.Described = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}


@contextlib.contextmanager
def virtual_node(gpu: Optional[simulated_gpu.Described], scratch: str) -> Iterator[None]:
    """Within this context the only GPU is `gpu`, or a default one. Parts that cannot be simulated stay unchanged.

    scratch: an existing folder for Triton's caches. torch sees the GPU only if it was imported before.
    """
    node = simulated_gpu.from_request(gpu or ASSUMED)
    with contextlib.ExitStack() as stack:
        if "torch" in sys.modules:
            from . import torch_cuda

            stack.enter_context(torch_cuda.virtual_cuda(node))
        if importlib.util.find_spec("triton") is not None:
            from ..triton import driver as triton_driver

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="attn-doctor-import-", dir=scratch))
            with contextlib.suppress(Exception):
                stack.enter_context(triton_driver.virtual_driver(node, folder))
        yield
