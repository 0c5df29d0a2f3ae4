"""What the start of this Python would do, read as data: an interpreter started with -S has run none of it.

The `site` module of the standard library says where site-packages are; folders named in `.pth` files join the path as
they do at a start, and their `import` lines, sitecustomize and usercustomize are named, not run.
https://docs.python.org/3/library/site.html
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys

#: A .pth file holds a few lines; what is larger is none.
_MOST = 1000000


def enter_environment() -> bool | None:
    """Has sys.prefix name the virtual environment, as the start of Python does, and before anything asks for it.

    Returns whether the base's site-packages are seen as well: None outside of a virtual environment.
    """
    folder = os.path.dirname(os.path.abspath(sys.executable or ""))
    for place in (folder, os.path.dirname(folder)):
        settings = _settings(os.path.join(place, "pyvenv.cfg"))
        if settings is not None:
            # Where the file lies beside the interpreter the folder above it is the prefix all the same.
            sys.prefix = sys.exec_prefix = os.path.dirname(folder)
            return settings.get("include-system-site-packages", "true").lower() == "true"
    return None


def path_and_code(python_path: str, with_base: bool | None) -> tuple[list[str], list[list[str]], bool]:
    """(sys.path as after a start, what would have run: [file, line] pairs, whether the user's folder counts).

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
    """Whether the user's own site-packages join the path."""
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
    """One site-packages folder and what its .pth files name."""
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
