"""The command with which a person can start this attn-doctor again; printed commands must work in their shell."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from attn_doctor.machine.files import absolute
from attn_doctor.machine.which import which

_COMMAND = "attn-doctor"


def own_name() -> str:
    """`attn-doctor` when that starts this one from PATH, else its path, or its Python with -m; quoted for a shell."""
    script = Path(sys.argv[0] or _COMMAND)
    if script.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "attn_doctor"])
    if script.name != _COMMAND or not script.exists():  # started by a program that uses us, or by a test
        return _COMMAND
    found = which(_COMMAND)
    # A runner (uvx, uv run) adds a folder to PATH that the user's shell does not have; it sets UV.
    # https://docs.astral.sh/uv/reference/environment/#uv
    if found is not None and Path(found).samefile(script) and "UV" not in os.environ:
        return _COMMAND
    return shlex.quote(str(script.absolute()))


def typed(*words: str) -> str:
    """A command of attn-doctor, quoted for a shell: `undo`, `RUN`."""
    return f"{own_name()} {shlex.join(words)}"


def as_typed(command: str) -> str:
    """A command from a report, with attn-doctor's name replaced by the one that works here."""
    return re.sub(rf"^{_COMMAND}(?= )", lambda _: own_name(), command)


def words_on_a_node(named: str | None, *, in_image: bool, as_module: bool) -> tuple[str, ...]:
    """The command that starts attn-doctor on another node: the path that was named, the one in its image, or that of
    this one.

    `as_module`: this one was started by its Python, with -m.
    """
    if named is not None:
        # A bare name is looked up on each node; a path is the same one there, wherever that starts.
        return (str(absolute(Path(named))) if "/" in named and not in_image else named,)
    if in_image:
        return (_COMMAND,)
    script = Path(sys.argv[0])
    if not as_module and script.name == _COMMAND and script.exists():
        return (str(script.absolute()),)
    return (sys.executable, "-m", "attn_doctor")
