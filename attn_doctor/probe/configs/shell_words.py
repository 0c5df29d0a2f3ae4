"""Splits a shell script into words with their positions; handles quotes, comments, continued lines and here-documents.

Not a shell: nothing is expanded or run. Syntax that it cannot parse is skipped.
"""

from __future__ import annotations

import re

from attn_doctor.quick_dataclasses import dataclass, field


@dataclass(slots=True)
class Word:
    """One word; `places[i]` is the position of `text[i]` in the script."""

    text: str = ""
    places: list[int] = field(default_factory=list)
    end: int = 0
    expands: list[int] = field(default_factory=list)
    """Indices in `text` of a `$` or a backtick that the shell would expand."""

    def add(self, character: str, place: int) -> None:
        self.text += character
        self.places.append(place)
        self.end = place + 1


def commands(script: str) -> list[list[Word]]:
    """The simple commands, in order."""
    found: list[list[Word]] = []
    current: list[Word] = []
    word: Word | None = None
    heredocs: list[tuple[str, bool]] = []
    at = 0

    def end_word() -> None:
        nonlocal word
        if word is not None:
            current.append(word)
            word = None

    def end_command() -> None:
        nonlocal current
        end_word()
        if current:
            found.append(current)
        current = []

    while at < len(script):
        c = script[at]
        if c == "\\" and at + 1 < len(script):
            if script[at + 1] == "\n":
                at += 2
                continue
            if script[at + 1 : at + 3] == "\r\n":
                at += 3
                continue
            word = word or Word(end=at)
            word.add(script[at + 1], at + 1)
            at += 2
        elif c == "'":
            word = word or Word(end=at)
            close = script.find("'", at + 1)
            close = len(script) if close < 0 else close
            for place in range(at + 1, close):
                word.add(script[place], place)
            word.end = at = close + 1
        elif c == '"':
            word = word or Word(end=at)
            at += 1
            while at < len(script) and script[at] != '"':
                if script[at] == "\\" and script[at + 1 : at + 2] in ('"', "\\", "$", "`"):
                    at += 1
                elif script[at] == "\\" and script[at + 1 : at + 2] == "\n":
                    at += 2
                    continue
                elif script[at] in "$`":
                    word.expands.append(len(word.text))
                word.add(script[at], at)
                at += 1
            at += 1
            word.end = at
        elif c == "#" and word is None:
            at = _line_end(script, at)
        elif c == "\n":
            end_command()
            at += 1
            for ending, tabs in heredocs:
                at = _past(script, at, ending, tabs)
            heredocs.clear()
        elif c in " \t\r":
            end_word()
            at += 1
        elif c == "<" and (match := re.compile(r"<<(-?)[ \t]*(['\"\\]?)([\w.-]+)").match(script, at)):
            heredocs.append((match[3], bool(match[1])))
            end_word()
            at = match.end() + (1 if match[2] in ("'", '"') and match[2] else 0)
        elif c in ";|&()":
            end_command()
            at += 1
        else:
            word = word or Word(end=at)
            if c in "$`":
                word.expands.append(len(word.text))
            word.add(c, at)
            at += 1
    end_command()
    return found


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _past(script: str, at: int, ending: str, tabs: bool) -> int:
    while at < len(script):
        end = _line_end(script, at)
        line = script[at:end].rstrip("\r")
        at = end + 1
        if (line.lstrip("\t") if tabs else line) == ending:
            return at
    return at
