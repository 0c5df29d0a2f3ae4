"""`set-config`: sets one key of a training configuration; every other byte stays.

probe/configs/configs.py determines the framework and the form of the file, config_keys.py the framework's name for a
setting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

from attn_doctor.fix.edits import json_spans, shell_spans, yaml_spans
from attn_doctor.fix.edits.config_keys import own_keys
from attn_doctor.fix.edits.splices import file_edit
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import FileEdit, Splice
from attn_doctor.probe.configs.files import form_of
from attn_doctor.recipes.schema.allowed_edits import setting_fault

Spans = Callable[[str, str, str], tuple[list[tuple[int, int, str]], list[str]]]
_BOM = b"\xef\xbb\xbf"


def planned(
    file: str, content: bytes, settings: dict[str, str], calls: Mapping[int | None, dict[str, str]] | None = None
) -> FileEdit | None:
    """The edit that gives the keys these values; None when they already have them.

    `calls`: for a script, line of a call -> settings for that call, instead of `settings`.

    Raises Refused when the edit cannot be made safely.
    """
    # Parser marks count characters without the byte order mark; splices count bytes with it.
    skipped = len(_BOM) if content.startswith(_BOM) else 0
    try:
        text = content[skipped:].decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text") from None
    splices: list[Splice] = []
    warnings: list[str] = []
    for line, these in ({None: settings} if calls is None else calls).items():
        spans, loaded = _format(file, text, line)
        for key, value in these.items():
            fault = setting_fault(key, value)
            if fault:
                raise Refused(fault)
        pairs = loaded(text)
        wanted = own_keys([key.removesuffix("{}") for key, _ in pairs], these)
        mine: list[Splice] = []
        for key, value in wanted.items():
            found, said = spans(text, key, value)
            warnings += said
            for start, end, new in found:
                if text[start:end] != new:
                    at = skipped + len(text[:start].encode())
                    mine.append(Splice(start=at, end=at + len(text[start:end].encode()), text=new))
        if mine:
            # Each call's edit keeps the number of lines, so that every call can be found again.
            _check(text, _after(content, mine, skipped), loaded, wanted)
        splices += mine
    if not splices:
        return None
    splices.sort(key=lambda splice: splice.start)
    return file_edit(file, content, tuple(splices), warnings=tuple(warnings))


def _after(content: bytes, splices: list[Splice], skipped: int) -> str:
    from attn_doctor.fix.edits.splices import spliced

    return spliced(content, splices)[skipped:].decode()


def _check(before: str, after: str, loaded: Callable[[str], Any], wanted: dict[str, str]) -> None:
    """Parses the result again: only the wanted keys may differ, in case the parser's marks were wrong."""
    others = [[pair for pair in loaded(text) if pair[0] not in wanted] for text in (before, after)]
    if others[0] != others[1]:
        raise Refused("the edit would change more than the one key")
    now = dict(loaded(after))
    for key, value in wanted.items():
        got = now.get(key)
        words = got[1] if isinstance(got, tuple) else got
        if words not in (value, json.dumps(value)):
            raise Refused(f"the edit would not make {key} {value}")


def _format(file: str, text: str, line: int | None) -> tuple[Spans, Callable[[str], Any]]:
    form = form_of(PurePath(file).name, text)
    if form == "json":
        return json_spans.splices, json_spans.loaded
    if form == "shell":
        return partial(shell_spans.splices, line=line), partial(shell_spans.loaded, line=line)
    return yaml_spans.splices, yaml_spans.loaded
