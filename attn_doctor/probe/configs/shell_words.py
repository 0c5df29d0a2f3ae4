"""Splits a shell script into words with their positions; handles quotes, comments, continued lines and here-documents.

Not a shell: nothing is expanded or run. Syntax that it cannot parse is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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


_SHELL = re.compile(r"(?:.*/)?(?:ba|da|k|z)?sh\Z")
#: A group of short options that ends with the one whose value is a script: -c, -lc, -xec.
_SCRIPT_FOLLOWS = re.compile(r"-[a-z]*c\Z")
_WRAP = "--wrap="
#: Most levels of scripts inside scripts: real files have fewer, and parsing an attacker's file must end.
_DEEPEST = 3


def commands(script: str) -> list[list[Word]]:
    """The simple commands, in order.

    What a shell is given as a script of its own (`bash -c "…"`, `eval "…"`, `sbatch --wrap="…"`) is read as one, and
    its commands stand behind the command that it belongs to.
    """
    return list(_expanded(_plain(script), _DEEPEST))


def _expanded(found: list[list[Word]], depth: int) -> Iterator[list[Word]]:
    for command in found:
        inner = _script_in(command) if depth else None
        if inner is None:
            yield command
            continue
        yield [word for word in command if word is not inner[0]]
        yield from _expanded([[_outside(word, inner) for word in one] for one in _plain(_text(inner))], depth - 1)


def _script_in(command: list[Word]) -> tuple[Word, int] | None:
    """The word of a command that is a script, and where in its text that begins."""
    before = [word.text for word in command]
    if before[0] in ("echo", "printf"):
        return None
    if len(command) == 2 and before[0] == "eval":
        return command[1], 0
    for number, word in enumerate(command):
        if word.text.startswith(_WRAP):
            return word, len(_WRAP)
        if number and before[number - 1] == _WRAP[:-1]:
            return word, 0
        is_given = number > 1 and _SCRIPT_FOLLOWS.match(before[number - 1])
        if is_given and any(_SHELL.match(one) for one in before[: number - 1]):
            return word, 0
    return None


def _text(inner: tuple[Word, int]) -> str:
    return inner[0].text[inner[1] :]


def _outside(word: Word, inner: tuple[Word, int]) -> Word:
    """A word of the inner script with its places in the outer one."""
    outer, skipped = inner
    places = outer.places[skipped:]
    end = places[word.end - 1] + 1 if 0 < word.end <= len(places) else outer.end
    return Word(text=word.text, places=[places[one] for one in word.places], end=end, expands=word.expands)


def _plain(script: str) -> list[list[Word]]:
    """The commands in the script itself."""
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
