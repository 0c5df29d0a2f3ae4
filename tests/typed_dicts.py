"""Holds a JSON value against the TypedDict that declares it: type checkers never see what a child process answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict


def differences(value: object, declared: Any, names: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """What of the value is not as declared: missing and undeclared keys, values of other types, with their place.

    `names`: what the module of a TypedDict imports for type checkers alone.
    """
    origin, arguments = get_origin(declared), get_args(declared)
    if declared is Any:
        return
    if is_typeddict(declared):
        if not isinstance(value, dict):
            yield f"{where}: {type(value).__name__} instead of {declared.__name__}"
            return
        hints = get_type_hints(declared, localns=dict(names))
        yield from (f"{where}.{key} is not declared" for key in value.keys() - hints.keys())
        yield from (f"{where}.{key} is missing" for key in declared.__required_keys__ - value.keys())
        for key in hints.keys() & value.keys():
            yield from differences(value[key], hints[key], names, f"{where}.{key}")
    elif origin is Union:
        # None fits one of them at most, so the words of the last one are those of the value that was meant.
        found = [list(differences(value, one, names, where)) for one in arguments if one is not type(None)]
        if value is not None or type(None) not in arguments:
            yield from min(found, key=len)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: {type(value).__name__} instead of a list"
            return
        for number, item in enumerate(value):
            yield from differences(item, arguments[0], names, f"{where}[{number}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: {type(value).__name__} instead of a dictionary"
            return
        for key, item in value.items():
            yield from differences(item, arguments[1], names, f"{where}[{key!r}]")
    elif declared is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{where}: {type(value).__name__} instead of float"
    elif not isinstance(value, declared) or (declared is int and isinstance(value, bool)):
        yield f"{where}: {type(value).__name__} instead of {declared.__name__}"
