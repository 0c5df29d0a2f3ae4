"""JSON by the two functions in C that the module `json` is made around.

Importing `json` itself, for its regular expressions, takes as long as the start of an interpreter that is asked for
nothing but its description. https://github.com/python/cpython/blob/main/Modules/_json.c
"""

from __future__ import annotations


class _Settings:
    """As json.loads sets them."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def loads(text: str) -> object:
    """As json.loads. Raises ValueError."""
    try:
        from _json import make_scanner

        text = text.strip(" \t\n\r")
        value, end = make_scanner(_Settings)(text, 0)  # type: ignore[arg-type, unused-ignore]
        if end == len(text):
            return value  # type: ignore[no-any-return, unused-ignore]
    except (ImportError, StopIteration, SystemError):
        pass  # another Python, or no JSON: SystemError says that json, which knows the words for it, is not imported
    import json

    found: object = json.loads(text)
    return found


def dumps(value: object) -> str:
    """As json.dumps: ASCII, since a path that is not UTF-8 reaches Python as lone surrogates, which only survive
    escaped. What is no JSON becomes its `str`.
    """
    try:
        from _json import encode_basestring_ascii, make_encoder

        encode = make_encoder({}, str, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    except ImportError:
        import json

        return json.dumps(value, default=str)
    return "".join(encode(value, 0))
