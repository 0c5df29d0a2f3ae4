"""The language that people read: English as it stands in the code, or Chinese from data beside it.

`say` looks its text up in `zh.toml` of this folder, where each English text has its Chinese with the same slots.
Recipes have theirs beside them (`recipes/translation.py`). What has none stays English. Nothing is loaded before
somebody chose Chinese: a run in English opens no file for it. Formats for programs are written in English
(`in_english`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO

from attn_doctor.errors import BadInput

ENGLISH, CHINESE = "en", "zh"
#: Languages of --lang.
LANGUAGES = (ENGLISH, CHINESE)
#: Locales that are read as simplified Chinese; those of Taiwan and Hong Kong have other characters and other terms.
_SIMPLIFIED = ("zh", "zh_cn", "zh_sg", "zh_hans")
#: A stream that takes these takes what this writes.
_SAMPLE = "精度：—"

_chosen: Mapping[str, str] | None = None
"""The Chinese texts by their English ones; None: English is spoken."""


def say(text: str, /, **slots: object) -> str:
    """The text in the language that is spoken, its slots filled as `str.format` does."""
    if _chosen is not None:
        text = _chosen.get(text, text)
    return text.format(**slots) if slots else text


def to_say(text: str, /) -> str:
    """The same text: it stands in a table, and is given to `say` when it is written."""
    return text


def say_filled(text: str) -> str:
    """A text that was made and filled in elsewhere, if the table [elsewhere] knows its pattern."""
    if _chosen is None:
        return text
    from attn_doctor.report.language import translated

    return translated.in_chinese(text, _chosen_patterns())


def _chosen_patterns() -> tuple[tuple[str, str], ...]:
    from attn_doctor.report.language import catalogue

    return catalogue.patterns()


def recipe_text(id_: str, text: str) -> str:
    """A text of that recipe, filled in, in the language that is spoken."""
    if _chosen is None:
        return text
    from attn_doctor.report.language import translated

    return translated.text_of(id_, text)


def speaks_chinese() -> bool:
    """True while Chinese is spoken."""
    return _chosen is not None


def code() -> str:
    """`en` or `zh-CN`, as HTML names the language that is spoken."""
    return ENGLISH if _chosen is None else "zh-CN"


def choose(wanted: str | None = None, *, for_program: bool = False) -> None:
    """Sets the language: the wanted one, else that of the locale.

    English where a program reads the result, and where standard output cannot encode Chinese. Raises BadInput for an
    unknown language.
    """
    global _chosen
    spoken = of_locale(os.environ) if wanted is None else wanted
    if spoken not in LANGUAGES:
        hint = f"One of {', '.join(LANGUAGES)}."
        raise BadInput("the doctor does not speak that language", about=f"--lang {wanted}", hint=hint)
    _chosen = None
    if spoken == CHINESE and not for_program and _takes_chinese(sys.stdout):
        from attn_doctor.report.language import catalogue

        _chosen = catalogue.texts()


@contextlib.contextmanager
def in_english() -> Iterator[None]:
    """English within this context, for formats that programs read."""
    global _chosen
    before, _chosen = _chosen, None
    try:
        yield
    finally:
        _chosen = before


def of_locale(environ: Mapping[str, str]) -> str:
    """The language of a locale: LANGUAGE, when the locale is not C, before LC_ALL, LC_MESSAGES and LANG.

    https://www.gnu.org/software/gettext/manual/html_node/Locale-Environment-Variables.html
    """
    locale = next((one for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (one := environ.get(name))), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return ENGLISH
    first = next((one for one in environ.get("LANGUAGE", "").split(":") if one), locale)
    name = first.partition(".")[0].partition("@")[0].lower().replace("-", "_")
    return CHINESE if name in _SIMPLIFIED or name.startswith("zh_hans_") else ENGLISH


def _takes_chinese(stream: IO[str]) -> bool:
    try:
        _SAMPLE.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
