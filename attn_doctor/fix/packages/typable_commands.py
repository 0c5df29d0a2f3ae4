"""Commands as they work when a person types them: with an installer that is there, about the interpreter examined."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from attn_doctor.model.facts import Absent, FactSet

#: Commands of ours that look at an interpreter.
_OURS = re.compile(r"(attn-doctor (?:check|fix|trace|undo))\b(?!.*--python)")
#: pip's words that uv spells in another way; what it has none for goes.
_UV = {"--no-cache-dir": "--no-cache", "--pre": "--prerelease=allow", "-y": "", "-v": ""}
_BY_UV = frozenset({"install", "uninstall", "list", "show", "freeze", "check"})


def typable(commands: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """The commands for this node. pip becomes uv where the environment has no pip and uv is there; where it is not,
    pip is installed first."""
    python = facts.text("python.executable")
    found = []
    for command in commands:
        if python is not None:
            command = _OURS.sub(lambda match: f"{match[1]} --python {shlex.quote(python)}", command)
        found.append(command)
    if python is None or facts.value("python.has_pip") is not False:
        return tuple(found)
    asks_pip = f"{shlex.quote(python)} -m pip "
    if speaks_uv(facts):
        return tuple(_by_uv(command, asks_pip, python, facts) for command in found)
    if any(asks_pip in command for command in found):
        found.insert(0, f"{shlex.quote(python)} -m ensurepip")
    return tuple(found)


def speaks_uv(facts: FactSet) -> bool:
    """Whether commands for this environment are uv's: it has no pip, and uv is not known to be missing."""
    return facts.value("python.has_pip") is False and not isinstance(facts.fact("python.uv").state, Absent)


def _by_uv(command: str, asks_pip: str, python: str, facts: FactSet) -> str:
    """`python -m pip install …` as uv has it; what uv has no word for stays pip's, which then says so."""
    before, there, after = command.partition(asks_pip)
    verb, _, rest = after.partition(" ")
    if not there or verb not in _BY_UV:
        return command
    # Word by word, as it is written: what a shell reads in it is to stay.
    words = [_UV.get(word, word) for word in rest.split(" ")]
    uv = shlex.quote(facts.text("python.uv") or "uv")
    return " ".join([f"{before}{uv} pip {verb} --python {shlex.quote(python)}", *(word for word in words if word)])
