"""Finds the training calls in a shell script: LLaMA-Factory's arguments, and configuration files given to any launcher.

Each call is read separately. Values that only a shell can determine (a variable that is not set exactly once to plain
text, a substitution) are marked as unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from attn_doctor.probe.configs.shell_words import Word, commands
from attn_doctor.quick_dataclasses import dataclass

_CALL = re.compile(r"llamafactory|src/train|llmtuner")
_PAIR = re.compile(r"(-{0,2})([A-Za-z_][\w.]*)=", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_FILE = re.compile(r"\.(ya?ml|json)\Z", re.IGNORECASE)
_ONLY_NAMES = ("echo", "printf", "export", "alias", "cd", "source", ".", "cat", "rm", "cp", "mv", "ls", "test", "[")
_LAUNCHER = re.compile(
    r"(?:.*/)?(?:accelerate|torchrun|deepspeed|axolotl|llamafactory-cli|llamafactory|python[\d.]*|srun|mpirun)\Z"
)
#: Options with a configuration file as value: accelerate's own, and the trainers' for DeepSpeed.
_OPTIONS = ("--config_file", "--deepspeed", "--deepspeed_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument; `start` and `end` enclose its value, without surrounding quotes."""

    key: str
    value: str | None
    """None for a switch, and for a value that only a shell can determine."""
    start: int
    end: int
    line: int
    known: bool = True
    """False when only a shell can determine the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of LLaMA-Factory; `words` begin with its name."""

    line: int
    words: tuple[Word, ...]
    arguments: tuple[Argument, ...]
    loose: tuple[Word, ...] = ()
    """Words from a variable or a substitution, which may be any arguments: `$ARGS`, `"${ARGS[@]}"`."""

    @property
    def subcommand(self) -> str:
        """`train` in `llamafactory-cli train`; empty for a script of LLaMA-Factory."""
        return self.words[1].text if len(self.words) > 1 and re.fullmatch(r"[a-z]+", self.words[1].text) else ""

    @property
    def dashed(self) -> bool:
        """True when its arguments are written with dashes."""
        return any(word.text.startswith("--") for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A configuration file in the arguments of a call."""

    path: str
    """As written, with variables filled in that are set exactly once to plain text."""
    line: int
    call: int
    """Line of the LLaMA-Factory call that reads it as its own configuration; 0 for any other call."""
    folder: str | None
    """Folder of a preceding `cd`; None without one, or when only a shell can determine it."""
    known: bool = True
    """False when only a shell can determine the path."""


def calls(script: str) -> tuple[Call, ...]:
    """Every call of LLaMA-Factory, in order."""
    found = []
    for command in commands(script):
        words = _called(command)
        if words:
            line = _line(script, words[0])
            arguments = tuple(_arguments(words, script))
            values = [one.end for one in arguments]
            positional = _positional(words)
            loose = tuple(
                word
                for word in words[1:]
                if word.text.startswith(("$", "`")) and word.end not in values and word is not positional
            )
            found.append(Call(line=line, words=tuple(words), arguments=arguments, loose=loose))
    return tuple(found)


def variables(script: str) -> dict[str, str]:
    """Variables that the script sets exactly once, to plain text."""
    found: dict[str, list[str | None]] = {}
    for command in commands(script):
        words = command[1:] if command[0].text in ("export", "local", "readonly", "declare") else command
        for word in words:
            match = _ASSIGNED.match(word.text)
            if match is None:
                break  # the rest are arguments
            plain = not any(index >= match.end() for index in word.expands)
            found.setdefault(match[1], []).append(word.text[match.end() :] if plain else None)
        if command[0].text in ("for", "read", "select"):
            found.setdefault(command[1].text if len(command) > 1 else "", []).append(None)
    return {name: values[0] for name, values in found.items() if len(values) == 1 and values[0] is not None}


def files(script: str) -> Iterator[NamedFile]:
    """Every configuration file in the arguments of a call, in order."""
    known = variables(script)
    folder: str | None = None
    for command in commands(script):
        if command[0].text == "cd" and len(command) > 1:
            to = filled(command[1], known)
            folder = None if to is None else posixpath.join(folder or "", to)
        if command[0].text in _ONLY_NAMES or not any(_LAUNCHER.match(w.text) or _CALL.search(w.text) for w in command):
            continue
        called = _called(command)
        axolotl = any(re.search(r"(?:\A|/)axolotl\Z|axolotl\.cli", word.text) for word in command)
        before = ""
        for word in command:
            option, _, behind = word.text.partition("=")
            given = before in _OPTIONS or (option in _OPTIONS and bool(behind))
            own = word is _positional(called)
            if given or own or (axolotl and not word.expands and not before.startswith("--")):
                text = filled(word, known)
                path = text if text is None or not given or before in _OPTIONS else text.partition("=")[2]
                named = word.text if path is None else path
                if _FILE.search(named) or path is None:
                    yield NamedFile(
                        path=named,
                        line=_line(script, word),
                        call=_line(script, called[0]) if own and not given else 0,
                        folder=folder,
                        known=path is not None,
                    )
            before = word.text


def _positional(called: list[Word]) -> Word | None:
    """The word that LLaMA-Factory reads as its configuration file: the first after its name and the subcommand.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/parser.py (read_args)
    """
    rest = called[1:]
    if rest and re.fullmatch(r"[a-z]+", rest[0].text):
        rest = rest[1:]
    first = rest[0] if rest else None
    return None if first is None or first.text.startswith("-") or _PAIR.match(first.text) else first


def filled(word: Word, known: Mapping[str, str]) -> str | None:
    """The word with known variables filled in; None when only a shell can expand it."""
    if not word.expands:
        return word.text
    text = _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[0]), word.text)
    return None if "$" in text or "`" in text else text


def settled(argument: Argument, call: Call, known: Mapping[str, str]) -> str | None:
    """The argument's value, when it is a known variable; None when only a shell can determine it."""
    if argument.known:
        return argument.value
    for number, word in enumerate(call.words):
        if argument.end == word.end:
            text = filled(word, known)
            if text is None:
                return None
            return text.partition("=")[2] if _PAIR.match(word.text) else text
        if number and argument.start in word.places:
            text = filled(word, known)
            return None if text is None else text.partition("=")[2] if _PAIR.match(word.text) else text
    return None


def hidden(call: Call, known: Mapping[str, str]) -> tuple[dict[str, str | None], bool]:
    """The arguments in variables set once to plain text, and whether there may be others that only a shell knows."""
    found: dict[str, str | None] = {}
    more = False
    for word in call.loose:
        text = filled(word, known)
        if text is None:
            more = True
            continue
        inner = commands(f"llamafactory {text}")
        for one in _arguments(inner[0], text) if inner else ():
            found[one.key] = one.value
            more = more or not one.known
    return found, more


def _called(words: list[Word]) -> list[Word]:
    """The words from LLaMA-Factory's name on; empty when the command is another one."""
    if words and words[0].text in _ONLY_NAMES:
        return []
    start = next((i for i, word in enumerate(words) if _CALL.search(word.text) and not _PAIR.match(word.text)), None)
    return [] if start is None else words[start:]


def _arguments(call: list[Word], script: str) -> Iterator[Argument]:
    rest = call[1:]
    for number, word in enumerate(rest):
        match = _PAIR.match(word.text)
        if match:
            yield _argument(match[2], word, match.end(), script)
        elif word.text.startswith("--"):
            following = rest[number + 1] if number + 1 < len(rest) else None
            if following is None or following.text.startswith("--") or _PAIR.match(following.text):
                # a switch: its value would follow it
                line = script.count("\n", 0, word.places[0]) + 1
                yield Argument(key=word.text[2:], value=None, start=word.end, end=word.end, line=line)
            else:
                yield _argument(word.text[2:], following, 0, script)


def _argument(key: str, word: Word, skip: int, script: str) -> Argument:
    places = word.places[skip:]
    line = _line(script, word)
    if not places:
        return Argument(key=key, value=None, start=word.end, end=word.end, line=line)
    start, end = places[0], places[-1] + 1
    changes = any(index >= skip for index in word.expands)
    # A value with quotes or escapes inside is not one run of characters; a program should not rewrite it.
    whole = end - start == len(places)
    value = word.text[skip:] if whole and not changes else None
    return Argument(key=key, value=value, start=start, end=end, line=line, known=value is not None)


def _line(script: str, word: Word) -> int:
    return script.count("\n", 0, (word.places or [word.end])[0]) + 1
