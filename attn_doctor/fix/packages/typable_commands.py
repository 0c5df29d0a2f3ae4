"""Rewrites commands so that they work when typed: with an available installer, for the examined interpreter."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from attn_doctor.model.facts import Absent, FactSet

#: Commands of attn-doctor that examine an interpreter.
_OURS = re.compile(r"(attn-doctor (?:check|fix|trace|undo))\b(?!.*--python)")
#: pip option -> uv option; empty when uv has no such option.
_UV = {"--no-cache-dir": "--no-cache", "--pre": "--prerelease=allow", "-y": "", "-v": ""}
_BY_UV = frozenset({"install", "uninstall", "list", "show", "freeze", "check"})


def typable(commands: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """The commands for this node. Without pip in the environment they use uv if it exists; otherwise pip is installed
    first. A log's own installer and shell decide their form."""
    from attn_doctor.fix.packages import shell_forms

    return shell_forms.formed(_installable(commands, facts), facts)


def _installable(commands: Iterable[str], facts: FactSet) -> tuple[str, ...]:
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
    """True when commands for this environment use uv: it has no pip, and uv is not known to be missing."""
    return facts.value("python.has_pip") is False and not isinstance(facts.fact("python.uv").state, Absent)


def _by_uv(command: str, asks_pip: str, python: str, facts: FactSet) -> str:
    """`python -m pip install …` for uv; an option without counterpart stays as it is, and uv reports it."""
    before, there, after = command.partition(asks_pip)
    verb, _, rest = after.partition(" ")
    if not there or verb not in _BY_UV:
        return command
    # Word by word, without parsing: the shell syntax in the command has to stay.
    words = [_UV.get(word, word) for word in rest.split(" ")]
    uv = shlex.quote(facts.text("python.uv") or "uv")
    return " ".join([f"{before}{uv} pip {verb} --python {shlex.quote(python)}", *(word for word in words if word)])
