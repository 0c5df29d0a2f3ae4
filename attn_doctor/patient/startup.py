"""What the start of this Python would do, read as data: an interpreter started with -S has run none of it.

The standard library's `site` module gives the location of site-packages. Folders named in `.pth` files are added to the
path as at a start; their `import` lines, sitecustomize and usercustomize are listed, not run.
https://docs.python.org/3/library/site.html
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys

#: Largest .pth file read, in bytes; a real one has a few lines.
_MOST = 1000000


def enter_environment() -> bool | None:
    """Sets sys.prefix to the virtual environment, as the start of Python does; call it before anything reads
    sys.prefix.

    Returns whether the base's site-packages are visible as well; None outside a virtual environment.
    """
    folder = os.path.dirname(os.path.abspath(sys.executable or ""))
    for place in (folder, os.path.dirname(folder)):
        settings = _settings(os.path.join(place, "pyvenv.cfg"))
        if settings is not None:
            # Even if pyvenv.cfg is next to the interpreter, the folder above is the prefix.
            sys.prefix = sys.exec_prefix = os.path.dirname(folder)
            return settings.get("include-system-site-packages", "true").lower() == "true"
    return None


def path_and_code(python_path: str, with_base: bool | None) -> tuple[list[str], list[list[str]], bool]:
    """(sys.path as after a start; startup code as [file, line] pairs; whether the user's folder counts).

    `python_path` is the value of PYTHONPATH, `with_base` the answer of enter_environment.
    """
    path: list[str] = []
    seen: set[str] = set()
    code: list[list[str]] = []
    named = python_path.split(os.pathsep) if python_path else []
    for folder in named + sys.path:
        _join(folder, path, seen)
    users = _users(with_base)
    of_environment = site.getsitepackages([sys.prefix]) if with_base is not None else []
    of_base = site.getsitepackages() if with_base is None else []
    if with_base:
        of_base = site.getsitepackages([sys.prefix, sys.base_prefix, sys.base_exec_prefix])
    for folder in of_environment + ([site.getusersitepackages()] if users else []) + of_base:
        _read_folder(folder, path, seen, code)
    for module in ("sitecustomize", "usercustomize"):
        if module == "usercustomize" and not users:
            continue
        spec = importlib.machinery.PathFinder.find_spec(module, path)
        if spec is not None and spec.origin:
            code.append([spec.origin, "import " + module])
    return path, code, users


def _settings(file: str) -> dict[str, str] | None:
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            pairs = [line.partition("=") for line in lines if "=" in line]
    except OSError:
        return None
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _users(with_base: bool | None) -> bool:
    """True when the user's own site-packages are added to the path."""
    if with_base is False:
        return False
    return bool(site.check_enableusersite())


def _join(folder: str, path: list[str], seen: set[str]) -> bool:
    folder = os.path.abspath(folder)
    if os.path.normcase(folder) in seen:
        return False
    seen.add(os.path.normcase(folder))
    path.append(folder)
    return True


def _read_folder(folder: str, path: list[str], seen: set[str], code: list[list[str]]) -> None:
    """Reads one site-packages folder and the folders named in its .pth files."""
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        return
    _join(folder, path, seen)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith(".pth") and not name.startswith("."):
            _read_pth(folder, name, path, seen, code)


def _read_pth(folder: str, name: str, path: list[str], seen: set[str], code: list[list[str]]) -> None:
    file = os.path.join(folder, name)
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MOST).decode("utf-8-sig", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith(("import ", "import\t")):
            code.append([file, line.strip()[:200]])
            continue
        named = os.path.join(folder, line.rstrip())
        if "\0" not in named and os.path.exists(named):
            _join(named, path, seen)
