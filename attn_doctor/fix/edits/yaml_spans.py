"""Finds the position of a top-level key's value in a YAML text from the parser's marks, never by a text search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attn_doctor.fix.refusal import Refused


def splices(text: str, key: str, value: str) -> tuple[list[tuple[int, int, str]], list[str]]:
    """(start, end, new text) in characters, and warnings.

    For a duplicate key the last one counts, as in the PyYAML that LLaMA-Factory uses. Raises Refused.
    """
    root, aliased = _composed(text)
    pairs = [(k, v) for k, v in root.value if k.value == key]
    if not pairs:
        return [_inserted(text, root, key, value)], []
    name, node = pairs[-1]
    warnings = []
    if len(pairs) > 1:
        lines = ", ".join(str(k.start_mark.line + 1) for k, _ in pairs)
        warnings.append(f"{key} stands in lines {lines}; the last one counts, and only that one is changed")
    if node.id != "scalar":
        raise Refused(f"{key} holds a list or a mapping")
    start, end = node.start_mark.index, node.end_mark.index
    if start < name.end_mark.index or id(node) in aliased:
        raise Refused(f"{key} shares its value with another key through a YAML anchor")
    old = text[start:end]
    if not old:
        # `flash_attn:` without a value
        colon = text.index(":", name.end_mark.index) + 1
        return [(colon, colon, f" {value}")], warnings
    return [(start, end, _in_style(old, value, key))], warnings


def loaded(text: str) -> list[tuple[str, Any]]:
    """Every top-level pair as parsed, in order: to compare before with after."""
    return [(str(k.value), _plain(v)) for k, v in _composed(text)[0].value]


def _plain(node: Any) -> Any:
    if node.id == "scalar":
        return (node.tag, node.value)
    if node.id == "sequence":
        return [_plain(item) for item in node.value]
    return [(_plain(k), _plain(v)) for k, v in node.value]


def _composed(text: str) -> tuple[Any, frozenset[int]]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import MappingNode

    yaml = YAML(typ="rt")
    yaml.version = (1, 1)
    yaml.allow_duplicate_keys = True
    try:
        root = yaml.compose(text)
    except (YAMLError, ValueError, RecursionError) as error:
        # compose takes only one document: a second one also ends here
        raise Refused(f"the file is not one YAML document: {type(error).__name__}") from None
    if not isinstance(root, MappingNode):
        raise Refused("the file holds no keys")
    seen: dict[int, int] = {}
    anchored = set()
    for node in _nodes(root):
        seen[id(node)] = seen.get(id(node), 0) + 1
        if node.anchor is not None:
            anchored.add(id(node))
    return root, frozenset(anchored)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    if node.id == "scalar":
        return
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _nodes(part)


def _in_style(old: str, value: str, key: str) -> str:
    """The value in the style of the old one: quotes stay, except around a value that must not be text."""
    literal = value in ("true", "false", "null")
    for quote in ("'", '"'):
        if old.startswith(quote) and old.endswith(quote) and len(old) > 1:
            return value if literal else f"{quote}{value}{quote}"
    if old.startswith(("|", ">", "!", "&", "*")) or "\n" in old:
        raise Refused(f"the value of {key} is written in a form that is not changed by a program: {old.split()[0]!r}")
    return value


def _inserted(text: str, root: Any, key: str, value: str) -> tuple[int, int, str]:
    if root.flow_style:
        last = root.end_mark.index - 1
        before = text[root.start_mark.index + 1 : last].rstrip()
        at = root.start_mark.index + 1 + len(before)
        return at, at, f"{'' if not before or before.endswith(',') else ','} {key}: {value}"
    if re.search(r"^(\.\.\.|---)[ \t\r]*$", text[root.start_mark.index :], re.MULTILINE):
        raise Refused("the YAML document is ended by a marker: the key has to be added by hand")
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * root.start_mark.column
    if text.endswith("\n"):
        return len(text), len(text), f"{indent}{key}: {value}{newline}"
    return len(text), len(text), f"{newline}{indent}{key}: {value}"
