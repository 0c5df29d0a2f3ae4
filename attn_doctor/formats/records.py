"""Converts records to JSON and back; each key has the name of its field.

A field marked `left_out` is omitted from JSON when empty; all others are always written, None as null. A missing key
gives the field its default; unknown keys are ignored.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from attn_doctor import quick_dataclasses as dataclasses

Record = TypeVar("Record")


def to_json(record: Any, *, null: Collection[str] = (), without: Collection[str] = ()) -> dict[str, Any]:
    """The record as JSON values.

    `null`: fields written even when empty. `without`: fields that are not written.
    """
    written = {}
    for one in dataclasses.fields(record):
        value = getattr(record, one.name)
        silent = value is None and one.metadata.get("left_out") and one.name not in null
        if not silent and one.name not in without:
            written[one.name] = _plain(value)
    return written


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value


def from_json(record: type[Record], written: Any, **more: Any) -> Record:
    """The record from JSON values; `more` gives fields that JSON does not contain.

    Raises KeyError for a missing key and TypeError for a value of another type.
    """
    if not isinstance(written, Mapping):
        raise TypeError(f"{record.__name__} is {str(written)[:40]!r}")
    values = dict(more)
    class_: Any = record
    for name, (type_, required) in _fields(class_).items():
        if name in written and name not in more:
            values[name] = _read(type_, written[name], name)
        elif required and name not in more:
            raise KeyError(name)
    return record(**values)


@cache
def _fields(record: Any) -> dict[str, tuple[Any, bool]]:
    """Field name -> (type, True if it has no default)."""
    hints = get_type_hints(record)
    missing = dataclasses.MISSING
    return {
        one.name: (hints[one.name], one.default is missing and one.default_factory is missing)
        for one in dataclasses.fields(record)
    }


def _read(type_: Any, value: Any, name: str) -> Any:
    if type(value) is type_ or type_ is Any:  # most of a report, so first
        return value
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _read(next(one for one in arguments if one is not type(None)), value, name)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_read(arguments[0], one, name) for one in value)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(key): _read(arguments[1], one, name) for key, one in value.items()}
    if dataclasses.is_dataclass(type_) and isinstance(type_, type):
        return from_json(type_, value)
    fits = isinstance(type_, type) and (isinstance(value, type_) or (type_ is float and isinstance(value, int)))
    if not fits or (isinstance(value, bool) and type_ is not bool):
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    return value
