"""Wraps libraries' attention functions when their modules are imported.

A library that binds its kernels without torch.library must be wrapped by name. ../../libraries has the names and the
contracts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import inspect
import re
import sys
import types
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import torch

from ...libraries import LIBRARIES, flash_attn_2, of_module, version_of
from ...libraries.contract import Call
from ...libraries.library import Answered
from ..record import frames, ops
from .attention import Attending
from .operands import kind_of, undeclared
from .roles import Signature

if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType

    from ...arguments import Function, Given, Keywords, Positional
    from ...libraries.library import Fill

_PACKED = {"qkv": ("q", "k", "v"), "kv": ("k", "v")}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Loader, wrap: Fill) -> None:
        self.loader = loader
        self.wrap = wrap

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.wrap(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Leaves the search to the ordinary finders, and wraps the module's functions after the module has run."""

    def __init__(self, wrap: Fill) -> None:
        self.wrap = wrap
        self.busy: List[str] = []

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name in self.busy or not (_pattern_for(name) or _methods_of(name)):
            return None
        self.busy.append(name)
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, self.wrap)
                    return spec
        finally:
            self.busy.remove(name)
        return None


def _pattern_for(module: str) -> Optional[str]:
    for library in LIBRARIES:
        for where, names in library.functions:
            if re.match(where, module):
                return names
    return None


def _methods_of(module: str) -> List[Tuple[str, str]]:
    return [
        (kind, method) for library in LIBRARIES for where, kind, method in library.methods if re.match(where, module)
    ]


def contract_for(module: str, name: str, attention: Attending, given: Given) -> Function:
    """The contract of the module's library, to be called with operands and autocast's dtype."""
    library = of_module(module)
    if library is None or library.clauses is None:
        return undeclared
    asks = library.clauses
    conditions = attention.conditions
    versions = {"torch": str(torch.__version__), flash_attn_2.LIBRARY.distributions[0]: conditions.flash_attn_version}
    version = version_of(library)
    if version:
        versions.setdefault(library.distributions[0], version)
    ends = ("cu_seqlens_q", "cu_seqlens_k") if "cu_seqlens_q" in given else ("cu_seqlens",)
    starts = [given[end] for end in ends if isinstance(given.get(end), torch.Tensor)]
    output = given.get("output_dtype")
    options = {
        "name": name,
        "dropout": given.get("dropout_p"),
        "softcap": given.get("softcap"),
        "starts": tuple(ops.short(one.dtype) for one in starts),
        "output_dtype": ops.short(output) if isinstance(output, torch.dtype) else None,
    }

    def asked(operands: Any, autocast: object) -> object:
        if not {"q", "k", "v"} <= set(operands):
            return []
        around = dict(options, autocast=kind_of(autocast))
        return asks(Call(operands, conditions.capability, versions, conditions.backward, around))

    return asked


def unpacked(name: str, args: Positional, kwargs: Keywords) -> Dict[str, object]:
    """q, k and v of the packed variants: views, so that their strides are those that the kernel sees."""
    found: Dict[str, Any] = {}
    first = args[0] if args else kwargs.get("qkv", kwargs.get("q"))
    if "qkvpacked" in name:
        packed = first
        found.update(zip(("q", "k", "v"), packed.unbind(-3)))
    elif "kvpacked" in name:
        packed = args[1] if len(args) > 1 else kwargs["kv"]
        found["q"] = first
        found.update(zip(("k", "v"), packed.unbind(-3)))
    return found


def tensors_of(signature: Optional[Signature], name: str, args: Positional, kwargs: Keywords) -> Dict[str, object]:
    if "packed" in name:
        return unpacked(name, args, kwargs)
    if "with_kvcache" in name:
        names = ("q", "k_cache", "v_cache", "k", "v")
        bound = dict(zip(names, args), **kwargs)
        found = {"q": bound["q"], "k": bound["k_cache"], "v": bound["v_cache"]}
        found.update({"new_" + role: bound[role] for role in "kv" if bound.get(role) is not None})
        return found
    return signature.bind(args, kwargs) if signature is not None else {}


def _answer(function: object, name: str, module: str, tensors: Dict[str, object], given: Given, out: object) -> object:
    """The return value of a function whose kernel cannot run, made from an output of q's shape."""
    library = of_module(module)
    if library is None or library.answer is None:
        return out
    return library.answer(Answered(name, given, tensors, out, version_of(library), function.__module__))


def _parameters(function: Any) -> Tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _wrapped(function: Any, module: str, attention: Attending, owner: str = "") -> object:
    if hasattr(function, "_attn_doctor_original"):
        return None
    name = owner or function.__name__
    signature = Signature.of(function)
    if signature is None and "packed" not in name and "with_kvcache" not in name:
        return None

    @functools.wraps(function)
    def attend(*args: Any, **kwargs: Any) -> object:
        if torch.compiler.is_compiling() or attention.recorder.paused:
            return function(*args, **kwargs)
        tensors = tensors_of(signature, name, args, kwargs)
        given = {**dict(zip(names, args)), **kwargs}
        return attention.attend(
            name,
            module.split(".")[0],
            tensors,
            contract_for(module, name, attention, given),
            functools.partial(function, *args, **kwargs),
            frame=frames.caller(1),
            returned=lambda out: _answer(function, name, module, tensors, given, out),
            given=given,
        )

    names = _parameters(function)
    vars(attend)["_attn_doctor_original"] = function
    return attend


@contextlib.contextmanager
def hooked(attention: Attending) -> Iterator[None]:
    """Within this context, modules are wrapped on import; already imported ones are wrapped in every module that names
    their functions.
    """
    undo: List[Tuple[Any, str, Any]] = []

    def wrap(module: ModuleType) -> None:
        for kind, method in _methods_of(module.__name__):
            owner = vars(module).get(kind)
            if isinstance(owner, type) and owner.__module__ == module.__name__ and method in vars(owner):
                wrapped = _wrapped(vars(owner)[method], module.__name__, attention, kind)
                if wrapped is not None:
                    undo.append((owner, method, vars(owner)[method]))
                    setattr(owner, method, wrapped)
        pattern = _pattern_for(module.__name__)
        for name, value in list(vars(module).items()) if pattern else ():
            if not isinstance(value, types.FunctionType) or hasattr(value, "_attn_doctor_original"):
                continue
            if not pattern or not re.match(pattern, name) or value.__module__ != module.__name__:
                continue
            wrapped = _wrapped(value, module.__name__, attention)
            if wrapped is not None:
                undo.append((module, name, value))
                setattr(module, name, wrapped)

    loaded: Dict[str, Optional[types.ModuleType]] = {**sys.modules}  # None: its import is blocked
    already = [m for name, m in loaded.items() if m is not None and (_pattern_for(name) or _methods_of(name))]
    for module in already:
        if not getattr(module, "_attn_doctor_stand_in", False):
            wrap(module)
    # Once for all of them: each pass visits every loaded module.
    _rename(list(undo), undo)
    finder = _Finder(wrap)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        copies: List[Tuple[object, str, object]] = []
        _rename([(None, name, getattr(module, name, value)) for module, name, value in undo], copies, back=True)
        for module, name, value in reversed(undo):
            setattr(module, name, value)


def _rename(
    changed: List[Tuple[object, str, object]], undo: List[Tuple[object, str, object]], back: bool = False
) -> None:
    """Replaces the copies of a name that `from library import function` made, or restores them."""
    if back:
        new = {id(f): f._attn_doctor_original for _, _, f in changed if hasattr(f, "_attn_doctor_original")}
    else:
        new = {id(value): getattr(module, name) for module, name, value in changed}
    if not new:
        return
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in new and isinstance(value, types.FunctionType):
                undo.append((module, name, value))
                setattr(module, name, new[id(value)])
