"""Kinds of torch functions and operations, for reading a graph: casts, products with a weight, getters.

Defined by behaviour, for all of torch: independent of libraries and models.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Tuple

import torch

FLOATS: FrozenSet[torch.dtype] = frozenset(
    getattr(torch, name)
    for name in (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    )
    if hasattr(torch, name)
)

COMPLEX: Dict[torch.dtype, torch.dtype] = {
    getattr(torch, name): real
    for name, real in (
        ("complex32", torch.float16),
        ("complex64", torch.float32),
        ("complex128", torch.float64),
    )
    if hasattr(torch, name)
}
"""Complex dtype -> the dtype of its two parts, which gives its width compared with a real tensor."""

TRACKED: FrozenSet[torch.dtype] = FLOATS | frozenset(COMPLEX)
"""Dtypes that provenance follows; only FLOATS may reach a kernel."""

HALVES: Tuple[torch.dtype, ...] = (torch.float16, torch.bfloat16)

_PRODUCTS = frozenset(
    "aten::" + name
    for name in [
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "addbmm",
        "matmul",
        "linear",
        "convolution",
        "_convolution",
        "embedding",
        "mv",
        "addmv",
        "convolution_overrideable",
        "mkldnn_convolution",
        "_mkldnn_linear",
        "mkldnn_linear",
        "linear_backward",
    ]
)
"""Operations that project an input when one operand is a weight."""

_JOINS = frozenset("aten::" + name for name in ["cat", "stack", "where"])
"""Operations that concatenate tensors: each operand is data, and one wide tensor widens the result."""

_CASTS = frozenset(
    [
        "to",
        "float",
        "half",
        "bfloat16",
        "double",
        "type",
        "type_as",
        "_to_copy",
        "to_dense",
        "copy_",
        "_cast_Float",
        "_cast_Half",
    ]
)

_BORROWS_ONLY_DTYPE = frozenset(
    "aten::" + name
    for name in [
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty_strided",
    ]
)


class Kind:
    """The effect of an operation on the graph, looked up once per operation."""

    __slots__ = ("in_place", "join", "like", "name", "product", "view")

    def __init__(self, op: object) -> None:
        schema = getattr(op, "_schema", None)
        self.name = str(getattr(schema, "name", op))
        self.product = self.name in _PRODUCTS
        self.join = self.name in _JOINS
        self.in_place = bool(getattr(schema, "is_mutable", False))
        self.like = self.name in _BORROWS_ONLY_DTYPE
        alias = schema.arguments[0].alias_info if schema is not None and schema.arguments else None
        self.view = alias is not None and not alias.is_write
        """A write to its result is a write to its first operand."""


_kinds: Dict[object, Kind] = {}


def kind_of(op: object) -> Kind:
    kind = _kinds.get(op)
    if kind is None:
        kind = _kinds[op] = Kind(op)
    return kind


def short(dtype: object) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).replace("torch.", "")


def real_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself, or that of the parts of a complex one: a complex64 number is two float32 numbers."""
    return COMPLEX.get(dtype, dtype)


def c10_name(dtype: torch.dtype) -> str:
    """The dtype's name in torch's C++ messages."""
    names = {torch.float32: "float", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16"}
    return names.get(dtype, "double" if dtype == torch.float64 else short(dtype))


def name_of(func: object) -> str:
    """The public name of a torch function: torch.nn.functional.normalize, torch.Tensor.mul."""
    if isinstance(func, str):
        return func
    owner = getattr(func, "__self__", None)
    name = getattr(func, "__name__", None) or str(func)
    if name == "__get__" and owner is not None:
        return "torch.Tensor." + getattr(owner, "__name__", "property")
    objclass = getattr(func, "__objclass__", None)
    if objclass is not None:
        return "torch.Tensor." + name
    module = getattr(func, "__module__", None)
    if module is None or "_VariableFunctions" in str(getattr(func, "__qualname__", "")):
        for where, label in ((torch.nn.functional, "torch.nn.functional."), (torch, "torch.")):
            if getattr(where, name, None) is func:
                return label + name
        return name
    if module == "torch._C._nn":
        return "torch.nn.functional." + name
    qualified = getattr(func, "__qualname__", name).replace("_VariableFunctionsClass.", "")
    if module in ("torch._tensor", "torch._C"):
        return "torch." + qualified
    return "{}.{}".format(module, qualified)


def is_cast(func: object) -> bool:
    return name_of(func).rsplit(".", 1)[-1] in _CASTS


def op_name(op: object) -> str:
    return kind_of(op).name.replace("aten::", "")
