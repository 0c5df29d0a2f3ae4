"""The target of a trace: a factory, a Hugging Face config, or a user's script."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, Optional, Tuple, cast

import torch

from ...dtypes import ALIASES
from ..record import ops
from . import config_entry

if TYPE_CHECKING:
    from ...arguments import Function, Given
    from ..answer import Request


class EntryError(Exception):
    """The target cannot be prepared; the message gives the reason and what was expected."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Entry:
    """A target that can be run repeatedly."""

    def __init__(self, run: Callable[[], object], module: Optional[torch.nn.Module], words: str) -> None:
        self.run = run
        self.module = module
        self.words = words


def dtype_of(name: Optional[str]) -> Optional[torch.dtype]:
    if name is None:
        return None
    found = getattr(torch, ALIASES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise EntryError("usage", "{!r} is no torch dtype".format(name))
    return found


def autocast_of(request: Request) -> ContextManager[object]:
    dtype = dtype_of(request.get("autocast"))
    return contextlib.nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype)


def _value(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def arguments(request: Request) -> Tuple[List[object], Dict[str, object]]:
    args = [_value(a) for a in request.get("args") or []]
    kwargs = {k: _value(v) for k, v in (request.get("kwargs") or {}).items()}
    return args, kwargs


def load_factory(target: str) -> Function:
    """The callable named by "pkg.module:name" or "path/file.py:name"."""
    where, colon, name = target.rpartition(":")
    if not colon or not name:
        raise EntryError("usage", "{!r} is neither pkg.module:factory nor file.py:factory".format(target))
    if where.endswith(".py"):
        path = os.path.abspath(where)
        if not os.path.isfile(path):
            raise EntryError("factory not found", "no such file: {}".format(where))
        folder = os.path.dirname(path)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        if spec is None or spec.loader is None:
            raise EntryError("factory not found", "{} is no Python file".format(where))
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
                raise EntryError("factory not found", "no module named {!r}".format(error.name)) from error
            raise
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = [n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))]
            raise EntryError(
                "factory not found",
                "{} has no {!r}; it has: {}".format(where, name, ", ".join(sorted(near)[:12]) or "nothing callable"),
            )
        found = getattr(found, part)
    if not callable(found):
        raise EntryError("factory not found", "{} is a {}, not callable".format(target, type(found).__name__))
    return cast("Function", found)


def moved(value: object, device: Optional[str], dtype: Optional[torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor):
        floats = value.dtype in ops.FLOATS and dtype is not None
        return value.to(device=device or value.device, dtype=dtype if floats else value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device, dtype) for item in value)
    if isinstance(value, dict):
        return {k: moved(v, device, dtype) for k, v in value.items()}
    return value


def factory(request: Request, device: Optional[str]) -> Entry:
    """Calls the factory once; its result is run repeatedly."""
    build = load_factory(request["target"])
    args, kwargs = arguments(request)
    made = build(*args, **kwargs)
    module, call = callable_of(made, request["target"])
    dtype = dtype_of(request.get("dtype"))
    inputs: Tuple[Any, Dict[str, Any]] = call[1:]
    if module is not None and dtype is not None:
        module.to(dtype)
        inputs = moved(inputs, None, dtype)
    if device is not None and module is not None:
        module.to(device)
        inputs = moved(inputs, device, None)
    function = call[0]

    def run() -> object:
        with autocast_of(request):
            out = function(*inputs[0], **inputs[1])
        if request.get("backward"):
            backward(out)
        return out

    return Entry(run, module, "factory {}".format(request["target"]))


def callable_of(made: object, target: str) -> Tuple[Optional[torch.nn.Module], Tuple[Any, Any, Any]]:
    expected = (
        "it must return a callable, or a module with its example inputs: (module, args) or "
        "(module, kwargs) or (module, args, kwargs)"
    )
    if isinstance(made, torch.nn.Module):
        raise EntryError("factory without inputs", "{} returned a module and no inputs; {}".format(target, expected))
    if callable(made):
        return None, (made, (), {})
    if not isinstance(made, tuple) or not made or not callable(made[0]):
        raise EntryError(
            "factory returned something else", "{} returned a {}; {}".format(target, type(made).__name__, expected)
        )
    module = made[0] if isinstance(made[0], torch.nn.Module) else None
    args: Any = ()
    kwargs: Given = {}
    for part in made[1:]:
        if isinstance(part, dict):
            kwargs = part
        elif isinstance(part, (list, tuple)):
            args = tuple(part)
        else:
            args = (*args, part)
    return module, (made[0], args, kwargs)


def tensors_in(value: object) -> List[torch.Tensor]:
    """The floating-point tensors in a model's output, in any container."""
    if isinstance(value, torch.Tensor):
        return [value] if value.dtype in ops.FLOATS else []
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, (list, tuple)):
        value = list(vars(value).values()) if hasattr(value, "__dict__") else []
    return [tensor for item in value for tensor in tensors_in(item)]


def backward(out: object) -> None:
    """A backward pass from the sum of all outputs that require a gradient."""
    found = [t for t in tensors_in(out) if t.requires_grad]
    if not found:
        raise EntryError(
            "nothing to go back from",
            "no output requires a gradient: is the model in no_grad, or are all its parameters frozen?",
        )
    loss = sum(t.float().sum() for t in found)
    loss.backward()


def hugging_face(request: Request, device: Optional[str]) -> Entry:
    """A model from its config: architecture only, no weights, no network."""
    trusted = bool(request.get("trust_remote_code"))
    try:
        transformers, config = config_entry.load(request["target"], trusted)
        wanted = request.get("dtype") or getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
        named = str(wanted or "bfloat16").replace("torch.", "")
        dtype = wanted if isinstance(wanted, torch.dtype) else dtype_of(named)
        cut = config_entry.shrink(config) if request.get("shrink") else ""
        model = config_entry.build(transformers, config, dtype, request.get("attn"), trusted)
        model.train(bool(request.get("backward")))
        if device is not None:
            model.to(device)
        batch, length = int(request.get("batch") or 1), int(request.get("length") or 32)
        given = config_entry.inputs(model, batch, length, device or "cpu")
    except config_entry.Unusable as error:
        raise EntryError(error.kind, str(error)) from error

    def run() -> object:
        with autocast_of(request):
            out = model(**given)
        if request.get("backward"):
            backward(out.logits if isinstance(getattr(out, "logits", None), torch.Tensor) else out)
        return out

    words = "{} from its config, {} attention, {}{}".format(
        type(model).__name__,
        getattr(model.config, "_attn_implementation", None),
        ops.short(dtype),
        ", with {}".format(cut) if cut else "",
    )
    return Entry(run, model, words)


def script(request: Request) -> Entry:
    """The user's own program, as `python script.py ARGS` would run it."""
    path = request["target"]
    if not os.path.isfile(path):
        raise EntryError("script not found", "no such file: {}".format(path))

    def run() -> object:
        before = sys.argv, list(sys.path)
        sys.argv = [path, *[str(a) for a in request.get("args") or []]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        try:
            return runpy.run_path(path, run_name="__main__")
        finally:
            sys.argv, sys.path[:] = before

    return Entry(run, None, "script {}".format(path))
