"""Which of a package's compiled files the examined Python imports, where it carries one for each Python."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attn_doctor.probe.binaries import extensions

SITE = Path("/site")


def told(suffixes: list[str], version: str = "3.11.7") -> Any:
    return SimpleNamespace(told={"extension_suffixes": suffixes}, version=version)


def found(monkeypatch: pytest.MonkeyPatch, tag: str, *names: str) -> dict[str, Any]:
    """Module -> its file's name, or the names of files for other Pythons."""
    files = [(SITE / "deep" / name, SITE, "deep") for name in names]
    monkeypatch.setattr(extensions, "_files", lambda _: iter(files))
    modules: Any = extensions._extensions
    return {
        module: file.name if isinstance(file, Path) else file for module, file, _ in modules(SimpleNamespace(), tag)
    }


@pytest.mark.parametrize("pythons", [(310, 311, 312, 314), (314, 312, 311, 310)])
def test_a_build_for_each_python(monkeypatch: pytest.MonkeyPatch, pythons: tuple[int, ...]) -> None:
    """The one for this Python is taken, in whatever order they lie there."""
    names = [f"_C.cpython-{one}-x86_64-linux-gnu.so" for one in pythons]

    assert found(monkeypatch, "311", *names) == {"deep._C": "_C.cpython-311-x86_64-linux-gnu.so"}


def test_builds_for_other_pythons_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them is imported here; their names say what they are for."""
    names = ("_C.cpython-312-x86_64-linux-gnu.so", "_C.cp310-linux_x86_64.so")

    assert found(monkeypatch, "311", *names) == {"deep._C": tuple(sorted(names))}


@pytest.mark.parametrize("name", ["_C.so", "_C.abi3.so", "_C.cpython-311-x86_64-linux-gnu.so", "_C.cp311-any.so"])
def test_what_this_python_imports(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file without a Python's tag, one of the stable ABI, and its own."""
    assert found(monkeypatch, "311", name) == {"deep._C": name}


@pytest.mark.parametrize(
    ("suffixes", "version", "tag"),
    [
        ([".cpython-313t-x86_64-linux-gnu.so", ".so"], "3.13.1", "313t"),
        ([".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so"], "3.11.7", "311"),
        ([".so"], "3.9.2", "39"),
        ([], "3.12.0", "312"),
    ],
)
def test_the_tag_is_the_interpreters(suffixes: list[str], version: str, tag: str) -> None:
    """By its own suffixes, else by its version."""
    assert extensions._own_tag(told(suffixes, version)) == tag


def test_the_tag_of_the_python_that_runs_this() -> None:
    """Its real suffixes end with a bare .so, which fits every file: that one tells nothing."""
    assert ".so" in EXTENSION_SUFFIXES
    assert extensions._own_tag(told(list(EXTENSION_SUFFIXES), "0.0.0")) != "00"
