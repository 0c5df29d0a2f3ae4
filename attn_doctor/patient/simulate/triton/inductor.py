"""The Triton source that torch.compile generates for a function on a simulated GPU, and its compilation.

The function runs on CPU tensors, where dynamo and AOTAutograd trace it. Each graph that they pass to inductor is moved
to cuda:0 of the simulated GPU, as fake tensors, and lowered by the installed torch: with its templates, its
configurations for that compute capability, its code. The source is captured when torch is about to compile it. Fake
CUDA tensors from the start do not work: autograd queries the device's guard in C++, which does not exist without a
driver.

compile_here() lets torch itself compile such a source, including its second attempts with fewer stages. Nothing is
launched. torch stays modified: call become() in a child that ends afterwards. The caller chooses what to compile.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from ..cuda import torch_cuda
from ..cuda.simulated_gpu import Gpu
from . import driver as triton_driver

if TYPE_CHECKING:
    from ...arguments import Function

_FOUND_IN_WORDS = re.compile(r"out of resource\D*?.*?Required: ?(\d+),? ?Hardware limit: ?(\d+)", re.DOTALL)
_EXCEEDS = "triton.runtime.errors.OutOfResources"


@dataclasses.dataclass(frozen=True)
class Source:
    """A kernel in the form that torch would compile."""

    name: str
    text: str
    """A module that defines `name`."""


_held = contextlib.ExitStack()


def become(gpu: Gpu, scratch: str) -> None:
    """Makes this process treat `gpu` as its own, for good: this is not undone.

    scratch: an existing folder; torch's and Triton's caches are redirected there, and no other cache is read. Imports
    inductor, which takes seconds, so that children forked later need not. Raises the errors of torch and Triton.
    """
    import torch

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(scratch, "inductor")
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of compilers
    _held.enter_context(torch_cuda.virtual_cuda(gpu))
    _held.enter_context(triton_driver.virtual_driver(gpu, scratch))
    # A separate function for each: dynamo has rules by function, and refuses one with two names.
    torch.cuda._lazy_init = lambda: None
    torch.cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    torch.cuda.set_rng_state = lambda *args, **kwargs: None
    torch._C._cuda_getCurrentRawStream = lambda index: 0
    if hasattr(torch, "accelerator"):
        # A build for CUDA has an accelerator even without a GPU, and dynamo queries its driver for the current stream.
        torch.accelerator.is_available = lambda: False
    for name in ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile"):
        importlib.import_module(name)
    helpers: Any = importlib.import_module("torch._inductor.runtime.triton_helpers")
    helpers.set_driver_to_gpu = lambda: None  # it would initialize Triton's own driver
    _strides_without_a_copy()


@contextlib.contextmanager
def lowered() -> Iterator[List[Source]]:
    """Within this context, functions compiled by torch.compile are lowered for the GPU, and return zeros.

    The list receives the sources; those of a backward pass when it runs. Errors of inductor go to the caller.
    """
    import torch
    from torch._inductor import async_compile, compile_fx

    seen: List[Source] = []

    def lower(graph: object, inputs: object, **options: object) -> object:
        moved, fakes = _moved(copy.deepcopy(graph), inputs, torch.device("cuda", 0))
        compile_fx.compile_fx_inner(moved, fakes, **options)

        made = _outputs(graph)

        def run(arguments: List[Any]) -> Any:
            arguments.clear()  # as compiled code does, to free them
            return [torch.zeros_like(one) if isinstance(one, torch.Tensor) else one for one in made]

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def backend(graph: object, inputs: object) -> Any:
        return compile_fx.compile_fx(graph, inputs, inner_compile=lower)

    def keep(self: object, name: str, text: str, *rest: object, **options: object) -> None:
        seen.append(Source(name, text))

    thorough = torch.compile

    def compile(model: object = None, **options: object) -> object:  # noqa: A001 - it stands for torch.compile
        kept = {name: options[name] for name in ("dynamic", "fullgraph") if name in options}
        return thorough(model, backend=backend, **kept)

    with triton_driver.replaced((torch, "compile", compile), (async_compile.AsyncCompile, "triton", keep)):
        yield seen


def compile_here(source: Source) -> Dict[str, object]:
    """Compiles a source with torch, in this process, which may die of it. Returns a dict like
    compile.compile_here().
    """
    from torch._inductor import config
    from torch._inductor.codecache import PyCodeCache

    answer: Dict[str, Any] = {"shared": None, "registers": None, "spilled_bytes": None}
    launchers = [name for name in ("use_static_triton_launcher", "use_static_cuda_launcher") if hasattr(config, name)]
    try:
        with config.patch(dict.fromkeys(launchers, False)):
            kernel = getattr(PyCodeCache.load(source.text), source.name)
            kernel.precompile()
            needs = [getattr(one, "shared", None) for one in kernel.launchers]
            answer["shared"] = min((need for need in needs if isinstance(need, int)), default=None)
            if not needs:
                raise RuntimeError("torch compiled nothing of it and said no reason")
    except Exception as error:
        _describe(error, answer)
    return answer


def _describe(error: BaseException, answer: Dict[str, Any]) -> None:
    answer["exception"] = "{}.{}".format(type(error).__module__, type(error).__qualname__)
    answer["message"], answer["cause"], answer["resource"] = str(error), "", getattr(error, "name", None)
    found = _FOUND_IN_WORDS.search(str(error))
    if found:
        # torch wraps Triton's exception in one of its own with the same message.
        answer["exception"], answer["resource"] = _EXCEEDS, "shared memory"
        answer["shared"] = int(found.group(1))


# ---------------------------------------------------------------------------------------------------------------


def _outputs(graph: Any) -> List[object]:
    """Empty CPU tensors like the graph's outputs, which need not be computed for lowering."""
    import torch

    found = []
    for node in next(one for one in graph.graph.nodes if one.op == "output").args[0]:
        like = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
        if isinstance(like, torch.Tensor):
            like = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
        found.append(like)
    return found


def _moved(graph: Any, inputs: Any, device: object) -> Tuple[object, List[object]]:
    """The graph and its inputs, with `device` instead of the CPU and fake tensors instead of real ones."""
    import torch
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.node import map_aggregate
    from torch.utils import _pytree

    mode = detect_fake_mode(inputs) or FakeTensorMode()

    def fake(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)

    def other(value: object) -> object:
        return device if isinstance(value, torch.device) and value.type == "cpu" else value

    for module in graph.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            node.args, node.kwargs = map_aggregate(node.args, other), map_aggregate(node.kwargs, other)
            node.meta.pop("tensor_meta", None)
            if "val" in node.meta:
                node.meta["val"] = _pytree.tree_map(fake, node.meta["val"])
        module.recompile()
    return graph, [fake(value) for value in inputs]


def _strides_without_a_copy() -> None:
    """flex attention's fake backward copies into a fake CUDA tensor only for its strides; the C++ code needs a device
    for that.
    """
    import torch

    flex: Any = importlib.import_module("torch._higher_order_ops.flex_attention")
    original: Optional[Function] = getattr(flex, "_permute_strides", None)
    if original is None:
        return

    def permuted(out: Any, strides: Any) -> object:
        like = original(torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device="meta"), strides)
        return torch.empty_strided(like.shape, like.stride(), dtype=out.dtype, device=out.device)

    flex._permute_strides = permuted
