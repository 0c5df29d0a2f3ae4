"""Chooses the reader of a lock file or manifest by its name, else by what is in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import read_input
from attn_doctor.stack.locks.pins import LockRead
from attn_doctor.stack.locks.text_files import read_conda, read_dockerfile, read_requirements
from attn_doctor.stack.locks.toml_locks import read_lock, read_project

_MOST_BYTES = 64_000_000
_HINT = "uv.lock, pylock.toml, poetry.lock, requirements.txt, pyproject.toml, environment.yml or a Dockerfile."

Reader = Callable[[str, str, str, str], LockRead]
_BY_NAME: tuple[tuple[str, Reader], ...] = (
    (r"(uv|poetry)\.lock|pylock(\..+)?\.toml", read_lock),
    (r"pyproject.*\.toml", read_project),
    (r".*\.(txt|in)", read_requirements),
    (r".*\.ya?ml", read_conda),
    (r".*Dockerfile.*|.*\.dockerfile|Containerfile", read_dockerfile),
)


def read(file: Path, *, python: str, machine: str) -> LockRead:
    """Reads the file for that Python (empty: the one that it names) and processor.

    Raises BadInput for a file that cannot be read, or is none of the known kinds.
    """
    about = f"--lock {file}"
    reader = next((reader for pattern, reader in _BY_NAME if re.fullmatch(pattern, file.name)), None)
    try:
        text = read_input(file, most=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the file is not UTF-8 text", about=about, hint=_HINT) from None
    if reader is None:
        if re.search(r"^\[\[packages?\]\]", text, re.MULTILINE):
            reader = read_lock
        elif re.search(r"^FROM \S", text, re.MULTILINE):
            reader = read_dockerfile
        else:
            raise BadInput("that is no lock file or manifest that is known", about=about, hint=_HINT)
    return reader(text, str(file), python, machine)
