"""Makes stand-in functions: the library's signature, its checks, and the kernel's return value."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from types import FrameType

    from ..arguments import Function, Given, Keywords, Positional


def function(
    name: str, parameters: str, where: str, meet: Callable[[Given, Positional, Keywords, FrameType], object]
) -> Function:
    """A function `where.name` with these parameters. `meet(arguments, args, kwargs, frame)` handles its calls:
    `arguments` by name with defaults filled in, `args` and `kwargs` as given, and the caller's frame.

    A call that does not fit the signature raises TypeError, as in the library.
    """
    signature = inspect.signature(eval("lambda {}: None".format(parameters)))  # noqa: S307 - our own tables

    def stand_in(*args: object, **kwargs: object) -> object:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError("{}() {}".format(name, error)) from None
        bound.apply_defaults()
        return meet(bound.arguments, args, kwargs, sys._getframe(1))

    stand_in.__name__ = stand_in.__qualname__ = name
    stand_in.__module__ = where
    stand_in.__signature__ = signature  # type: ignore[attr-defined]
    stand_in._attn_doctor_original = stand_in  # type: ignore[attr-defined]
    return stand_in
