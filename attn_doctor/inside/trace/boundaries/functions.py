"""Attention functions of libraries, wrapped as their modules are imported.

Each library that binds its kernels without torch.library must be met by name: this is the one list of names,
and it decides only where to look. How dtypes are judged is contracts/'s, and the same for all.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ...libraries import fla, flex, sage, transformer_engine
from .. import contracts, frames
from .attention import Attention
from .roles import Signature

_PLACES: Tuple[Tuple[str, str], ...] = (
    (r"flash_attn\.flash_attn_interface$", r"flash_attn_\w*func$|flash_attn_with_kvcache$"),
    (r"(flash_attn_3\.)?flash_attn_interface$", r"flash_attn_\w*func$|flash_attn_with_kvcache$"),
    (r"flash_attn\.cute\.interface$", r"flash_attn_\w*func$"),
    (r"xformers\.ops(\.fmha)?$", r"memory_efficient_attention\w*$"),
    (r"fla\.ops\.", r"(chunk|fused|parallel|recurrent|naive)_\w+$|attn_\w+$"),
    (r"sageattention(\.core)?$", r"sageattn\w*$"),
    (r"torch\.nn\.attention\.flex_attention$", r"flex_attention$"),
)
"""Module pattern -> pattern of its functions that take q, k and v."""

_METHODS: Tuple[Tuple[str, str, str], ...] = (
    (r"transformer_engine\.pytorch\.attention(\.|$)", "DotProductAttention", "forward"),
)
"""Module pattern, and a class of it whose method takes them."""

_PACKED = {"qkv": ("q", "k", "v"), "kv": ("k", "v")}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, wrap: Callable[[Any], None]) -> None:
        self.loader = loader
        self.wrap = wrap

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        self.wrap(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the ordinary finders find, and wraps what the module defines once it has run."""

    def __init__(self, wrap: Callable[[Any], None]) -> None:
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
    for where, names in _PLACES:
        if re.match(where, module):
            return names
    return None


def _methods_of(module: str) -> List[Tuple[str, str]]:
    return [(kind, method) for where, kind, method in _METHODS if re.match(where, module)]


def contract_for(module: str, attention: Attention, kwargs: Dict[str, Any]) -> Callable[..., Any]:
    conditions = attention.conditions
    if module.startswith("flash_attn.cute"):
        return lambda o, a: contracts.flash_attn_4(o, conditions.capability, conditions.backward)
    if "flash_attn_interface" in module and not module.startswith("flash_attn."):
        return lambda o, a: contracts.flash_attn_3(o, conditions.capability, conditions.backward)
    if module.startswith("flash_attn"):
        dropout = float(kwargs.get("dropout_p") or 0.0)
        names = ("cu_seqlens_q", "cu_seqlens_k") if "cu_seqlens_q" in kwargs else ("cu_seqlens",)
        starts = tuple(kwargs[name] for name in names if kwargs.get(name) is not None)
        return lambda o, a: contracts.flash_attn_2(
            o, conditions.flash_attn_version, conditions.capability, conditions.backward, dropout, starts
        )
    if module.startswith("xformers"):
        return lambda o, a: contracts.xformers(o)
    if module.startswith("transformer_engine"):
        return lambda o, a: contracts.transformer_engine(o)
    if module.startswith("torch.nn.attention"):
        return lambda o, a: contracts.flex(o)
    return contracts.undeclared


def unpacked(name: str, args: Any, kwargs: Any) -> Dict[str, Any]:
    """q, k and v of the packed variants: views, so that their strides are told as the kernel sees them."""
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


def tensors_of(signature: Optional[Signature], name: str, args: Any, kwargs: Any) -> Dict[str, Any]:
    if "packed" in name:
        return unpacked(name, args, kwargs)
    if "with_kvcache" in name:
        names = ("q", "k_cache", "v_cache", "k", "v")
        bound = dict(zip(names, args), **kwargs)
        found = {"q": bound["q"], "k": bound["k_cache"], "v": bound["v_cache"]}
        found.update({"new_" + role: bound[role] for role in "kv" if bound.get(role) is not None})
        return found
    return signature.bind(args, kwargs) if signature is not None else {}


def _release(*distributions: str) -> Tuple[int, ...]:
    for name in distributions:
        try:
            return contracts.release_of(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    return ()


def _answer(function: Any, name: str, module: str, tensors: Dict[str, Any], given: Dict[str, Any], out: Any) -> Any:
    """What a function gives back, made of an output of the shape of q where its kernel cannot run."""
    top = module.split(".")[0]
    if module.startswith("torch.nn.attention"):
        aux = getattr(sys.modules[function.__module__], "AuxOutput", None)
        return flex.answer(given, out, tensors["q"], aux)
    if top == "transformer_engine":
        return transformer_engine.answer(out)
    if top == "sageattention":
        return sage.answer(name, given, out, tensors["q"], _release("sageattention"))
    if top == "fla":
        return fla.answer(name, given, out, tensors["q"], tensors["v"])
    return out


def _parameters(function: Any) -> Tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _wrapped(function: Any, module: str, attention: Attention, owner: str = "") -> Any:
    if hasattr(function, "_attn_doctor_original"):
        return None
    name = owner or function.__name__
    signature = Signature.of(function)
    if signature is None and "packed" not in name and "with_kvcache" not in name:
        return None

    @functools.wraps(function)
    def attend(*args: Any, **kwargs: Any) -> Any:
        if attention.recorder.paused:
            return function(*args, **kwargs)
        tensors = tensors_of(signature, name, args, kwargs)
        return attention.attend(
            name,
            module.split(".")[0],
            tensors,
            contract_for(module, attention, kwargs),
            functools.partial(function, *args, **kwargs),
            frame=frames.caller(1),
            returned=lambda out: _answer(function, name, module, tensors, {**dict(zip(names, args)), **kwargs}, out),
        )

    names = _parameters(function)
    attend._attn_doctor_original = function
    return attend


@contextlib.contextmanager
def hooked(attention: Attention) -> Iterator[None]:
    """Modules imported in here are wrapped; those imported before, in every module that names them."""
    undo: List[Tuple[Any, str, Any]] = []

    def wrap(module: Any) -> None:
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
            if not re.match(pattern, name) or value.__module__ != module.__name__:
                continue
            wrapped = _wrapped(value, module.__name__, attention)
            if wrapped is not None:
                undo.append((module, name, value))
                setattr(module, name, wrapped)

    already = [
        m for name, m in list(sys.modules.items()) if m is not None and (_pattern_for(name) or _methods_of(name))
    ]
    for module in already:
        if not getattr(module, "_attn_doctor_stand_in", False):
            wrap(module)
    # Once for all of them: each look walks every module there is.
    _rename(list(undo), undo)
    finder = _Finder(wrap)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        copies: List[Tuple[Any, str, Any]] = []
        _rename([(None, name, getattr(module, name, value)) for module, name, value in undo], copies, back=True)
        for module, name, value in reversed(undo):
            setattr(module, name, value)


def _rename(changed: List[Tuple[Any, str, Any]], undo: List[Tuple[Any, str, Any]], back: bool = False) -> None:
    """`from library import function` made copies of the name: they are replaced as well, or put back."""
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
