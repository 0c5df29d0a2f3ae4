"""Whose the CUDA libraries are that a process has loaded, and which other copies there are: planted files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import Absent, FactSet, Known, Unknown
from attn_doctor.probe.live import loaded_libraries
from attn_doctor.probe.packages.packages import take_inventory
from attn_doctor.recipes.shelf import bundled
from tests.probe.test_packages import install

OURS = ("loaded-library-not-the-wheels", "loaded-library-mixed")


class Node:
    """An environment with torch and a wheel of cuDNN 9.10.2, and a folder elsewhere with another copy."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "env" / "lib" / "python3.11" / "site-packages"
        self.site.mkdir(parents=True)
        install(self.site, "torch", "2.9.0", requires=("nvidia-cudnn-cu12==9.10.2.21",), module="torch")
        install(self.site, "nvidia-cudnn-cu12", "9.10.2.21")
        self.wheel = self.file(self.site / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9")
        self.part = self.file(self.wheel.with_name("libcudnn_ops.so.9"))
        self.other = self.file(folder / "toolkit" / "libcudnn.so.9")
        self.target: Any = SimpleNamespace(search_path=(self.site,), prefix=folder / "env")

    @staticmethod
    def file(path: Path) -> Path:
        """An empty file in its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def facts(self, *files: Path, said: str | None = None, **environment: str) -> FactSet:
        """The facts where these files are mapped; `said`: the version that each library itself says."""
        mapped = [{"family": "cudnn", "main": "_" not in one.name, "path": str(one.resolve())} for one in files]
        told: dict[str, str] = {"reason": "undefined symbol: cudnnGetVersion"} if said is None else {"version": said}
        answer = {"files": mapped, "versions": {str(one.resolve()): told for one in files}}
        return FactSet(
            loaded_libraries.probe(answer, take_inventory([self.site]), self.target, environment)  # as its .pth files
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The environment described above."""
    return Node(tmp_path)


def _found(facts: FactSet) -> set[str]:
    recipes = [one for one in bundled() if one.id in OURS]
    return {one.id for one in judge(facts, recipes).findings}


def test_the_wheels_own_is_no_finding(node: Node) -> None:
    """One copy, the one that torch asks for."""
    seen = node.facts(node.wheel, node.part, said="9.10.2")

    assert seen.value("loaded.cudnn.source") == "nvidia wheel"
    assert seen.value("loaded.cudnn.declared") == "nvidia-cudnn-cu12==9.10.2.21"
    assert seen.value("loaded.cudnn.differs") is False
    assert seen.value("loaded.cudnn.copies") == 1
    assert isinstance(seen.fact("loaded.cudnn.others").state, Absent)
    assert _found(seen) == set()


def test_another_release_by_the_loaders_path(node: Node) -> None:
    """Whose it is, what it says of itself, and which copy it hides."""
    seen = node.facts(node.other, said="9.1.0", LD_LIBRARY_PATH=str(node.other.parent))

    assert seen.value("loaded.cudnn.source") == "LD_LIBRARY_PATH"
    assert (seen.value("loaded.cudnn.version"), seen.value("loaded.cudnn.wheel_version")) == ("9.1.0", "9.10.2.21")
    assert seen.value("loaded.cudnn.others") == (str(node.wheel),)
    assert _found(seen) == {"loaded-library-not-the-wheels"}


def test_another_file_of_the_same_release_is_no_finding(node: Node) -> None:
    """A site's own copy: the facts name it, and nothing is wrong with it."""
    seen = node.facts(node.other, said="9.10.2", LD_LIBRARY_PATH=str(node.other.parent))

    assert seen.value("loaded.cudnn.differs") is False
    assert _found(seen) == set()


def test_parts_of_two_copies(node: Node) -> None:
    """The library from one folder, a part that it loads from another."""
    seen = node.facts(node.other, node.part, said="9.10.2", LD_LIBRARY_PATH=str(node.other.parent))

    assert seen.value("loaded.cudnn.copies") == 2
    assert _found(seen) == {"loaded-library-mixed"}


def test_another_major_version_is_another_library(node: Node) -> None:
    """Libraries of two CUDA releases live in one process without harm; the wheel's is not hidden by it."""
    older = node.file(node.other.with_name("libcudnn.so.8"))
    seen = node.facts(node.wheel, older, said="9.10.2")

    assert seen.value("loaded.cudnn.copies") == 1
    assert _found(seen) == set()


def test_a_link_into_a_package_cache_is_the_wheels(node: Node, tmp_path: Path) -> None:
    """As installers make them: the kernel names the file that the link leads to."""
    kept = node.file(tmp_path / "cache" / "libcudnn.so.9")
    node.wheel.unlink()
    node.wheel.symlink_to(kept)
    seen = node.facts(node.wheel, said="9.10.2")

    assert seen.value("loaded.cudnn.source") == "nvidia wheel"
    assert seen.value("loaded.cudnn.differs") is False


def test_a_library_that_says_no_version(node: Node) -> None:
    """The name of its file says it, else it is not known, and neither is whether it differs."""
    named = node.file(node.other.with_name("libcudnn.so.9.1.0"))

    assert node.facts(named).value("loaded.cudnn.version") == "9.1.0"
    seen = node.facts(node.other, LD_LIBRARY_PATH=str(node.other.parent))
    assert seen.fact("loaded.cudnn.version").state == Unknown("undefined symbol: cudnnGetVersion")
    assert isinstance(seen.fact("loaded.cudnn.differs").state, Unknown)
    assert _found(seen) == set()


def test_two_packages_that_bring_it(node: Node) -> None:
    """For two releases of CUDA: the file does not say which of them wrote it."""
    install(node.site, "nvidia-cudnn-cu13", "9.20.0.48")
    seen = node.facts(node.other, said="9.1.0")

    assert isinstance(seen.fact("loaded.cudnn.wheel_version").state, Unknown)
    assert isinstance(seen.fact("loaded.cudnn.differs").state, Unknown)


def test_a_process_that_was_not_reached(node: Node) -> None:
    """Unknown, not absent; without a torch there is nothing to load."""
    seen = FactSet(loaded_libraries.probe(None, take_inventory([node.site]), node.target, {}))
    assert isinstance(seen.fact("listed.loaded").state, Unknown)

    unread = {"files": None, "versions": {}}
    seen = FactSet(loaded_libraries.probe(unread, take_inventory([node.site]), node.target, {}))
    assert isinstance(seen.fact("listed.loaded").state, Unknown)

    empty: Any = SimpleNamespace(search_path=(), prefix=Path("/nowhere"))
    seen = FactSet(loaded_libraries.probe(None, take_inventory([]), empty, {}))
    assert seen.fact("listed.loaded").state == Known(0)
