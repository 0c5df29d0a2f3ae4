"""`set-environment`: sets a variable in the environment's activation scripts, never in a shell's own start-up files.

In a virtual environment, the activate scripts get a marked block at their end (and one where `deactivate` begins).
conda sources every file in activate.d and deactivate.d, so there the block is a file of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attn_doctor.fix.edits.splices import file_edit
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import FileEdit, Splice
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.schema.allowed_edits import variable_fault

_BEGIN, _END = "# >>> attn-doctor >>>", "# <<< attn-doctor <<<"
_LIMIT = (
    "only activating the environment sets it (in a job: before the program is started); a program that is started by "
    "the path of its Python does not see it"
)


@dataclass(frozen=True, slots=True)
class _Script:
    """One activation script, and the syntax of its shell."""

    file: str
    sets: str
    unsets: str
    deactivates: str = ""
    """The line after which `deactivate` gets its own block; empty when it has none."""


_VENV = (
    _Script("bin/activate", "export {name}='{value}'", "    unset {name}", "deactivate () {"),
    _Script("bin/activate.fish", "set -gx {name} '{value}'", "    set -e {name}", "function deactivate"),
    _Script("bin/activate.csh", "setenv {name} '{value}'", ""),
)
_CONDA = (
    _Script("etc/conda/activate.d/attn-doctor.sh", "export {name}='{value}'", ""),
    _Script("etc/conda/deactivate.d/attn-doctor.sh", "unset {name}", ""),
)
_SETS = re.compile(r"(?:export|set -gx|setenv) (\w+)[= ]'([^']*)'")


def files(prefix: Path) -> tuple[str, ...]:
    """The files that this action may change."""
    return tuple(str(prefix / script.file) for script in (*_VENV, *_CONDA))


def planned(prefix: Path, wanted: Mapping[str, str]) -> tuple[FileEdit, ...]:
    """The edits that make activation set these variables.

    Raises Refused when the environment has no activation script or sets them already; OSError.
    """
    for name, value in wanted.items():
        fault = variable_fault(name, value)
        if fault:
            raise Refused(fault)
    settings = {**written(prefix), **wanted}
    edits: list[FileEdit] = []
    for script in _scripts(prefix):
        path = prefix / script.file
        if os.path.realpath(path) != str(path):
            raise Refused(f"{path} is reached through a link")
        content = path.read_bytes() if path.exists() else None
        splices = _splices(script, "" if content is None else _text(path, content), settings)
        if splices:
            edits.append(file_edit(str(path), content, splices, warnings=() if edits else (_LIMIT,)))
    if not edits:
        raise Refused(f"{prefix}'s activation sets it already: activate the environment anew, and look again")
    return tuple(edits)


def written(prefix: Path) -> dict[str, str]:
    """The variables that our blocks set on activation, read from the files."""
    found: dict[str, str] = {}
    for script in (_VENV[0], _CONDA[0]):
        with contextlib.suppress(OSError):
            text = (prefix / script.file).read_text(errors="replace")
            for start, end in _blocks(text):
                found.update(_SETS.findall(text[start:end]))
    return found


@contextlib.contextmanager
def activated(prefix: Path) -> Iterator[None]:
    """Within this context, started processes see the variables as after activation: read from the files, without a
    shell.
    """
    before = {name: os.environ.get(name) for name in written(prefix)}
    os.environ.update(written(prefix))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _scripts(prefix: Path) -> tuple[_Script, ...]:
    if (prefix / "conda-meta").is_dir():
        return _CONDA
    if (prefix / "pyvenv.cfg").is_file() and (prefix / "bin/activate").is_file():
        return tuple(script for script in _VENV if (prefix / script.file).is_file())
    raise Refused(f"{prefix} has nothing that is sourced when it is used: set the variable where the job is started")


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text") from None


def _splices(script: _Script, text: str, settings: Mapping[str, str]) -> tuple[Splice, ...]:
    places = [(_block(script.sets, settings), _place(text, at=len(text)))]
    line = _line_after(text, script.deactivates) if script.deactivates else None
    if line is not None:
        places.append((_block(script.unsets, settings, indent="    "), _place(text, at=line, nested=True)))
    found = []
    for block, (start, end) in places:
        new = block if not start or text[start - 1] == "\n" else "\n" + block
        if text[start:end] != new:
            first = len(text[:start].encode())
            found.append(Splice(start=first, end=first + len(text[start:end].encode()), text=new))
    return tuple(sorted(found, key=lambda one: one.start))


def _block(form: str, settings: Mapping[str, str], indent: str = "") -> str:
    lines = [form.format(name=name, value=value) for name, value in sorted(settings.items())]
    return "".join(f"{line}\n" for line in (indent + _BEGIN, *lines, indent + _END))


def _place(text: str, *, at: int, nested: bool = False) -> tuple[int, int]:
    """(start, end) of our block, or the empty span where it belongs."""
    for start, end in _blocks(text):
        if text[start:].startswith(" ") == nested:
            return start, end
    return at, at


def _blocks(text: str) -> list[tuple[int, int]]:
    pattern = rf"^[ ]*{re.escape(_BEGIN)}\n(?:(?![ ]*# >>>).*\n)*?[ ]*{re.escape(_END)}\n"
    return [match.span() for match in re.finditer(pattern, text, re.MULTILINE)]


def _line_after(text: str, line: str) -> int | None:
    """Start of the line after this one; None unless this line occurs exactly once."""
    found = [match.end() for match in re.finditer(rf"^{re.escape(line)}[^\n]*\n", text, re.MULTILINE)]
    return found[0] if len(found) == 1 else None
