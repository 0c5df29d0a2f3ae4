"""Symbol versions: which are needed, which the loaded library lacks, which libstdc++ would be loaded."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import LoaderView, Unreadable, offered_glibcxx
from tests.probe.binaries.building import Build, against, exporting, needing, really_load

TorchMaker = Callable[..., Path]


def versioned(build: Build, path: Path, *versions: str) -> Path:
    """A library that defines one function in the newest of these versions."""
    script = path.with_suffix(".map")
    path.parent.mkdir(parents=True, exist_ok=True)
    nodes = [f"{version} {{ }};" for version in versions[:-1]] + [f"{versions[-1]} {{ global: *; }};"]
    script.write_text("\n".join(nodes))
    return build(path, exporting("helper"), f"-Wl,-soname,{path.name}", f"-Wl,--version-script={script}")


@pytest.mark.parametrize(
    ("name", "offered", "missing"),
    [
        ("newer", ("GLIBCXX_3.4.9", "GLIBCXX_3.4.30"), []),
        ("older", ("GLIBCXX_3.4.9",), ["GLIBCXX_3.4.30"]),
        ("none", (), ["GLIBCXX_3.4.30"]),
    ],
)
def test_versions_that_the_loaded_library_lacks(
    build: Build, tmp_path: Path, name: str, offered: tuple[str, ...], missing: list[str]
) -> None:
    """An older library of that name comes first: the version is named, with who wants it and who lacks it."""
    needed = versioned(build, tmp_path / "build" / "libversioned.so.6", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30")
    path = build(tmp_path / "e.so", needing("helper"), needed)
    loaded = tmp_path / name / "libversioned.so.6"
    if offered:
        versioned(build, loaded, *offered)
    else:
        build(loaded, exporting("helper"), "-Wl,-soname,libversioned.so.6")
    environment = {"LD_LIBRARY_PATH": str(loaded.parent)}
    answer = against(None, path, **environment)
    error, _ = really_load(path, torch=False, environment=environment)

    assert missing == [each.version for each in answer.missing_versions]
    assert all((loaded, path) == (each.provider, each.needed_by) for each in answer.missing_versions)
    assert (not missing, not missing) == (answer.would_load, error == "")
    assert answer.unjudged_symbols == ()
    assert answer.glibcxx_needed is not None
    # 3.4.30 is newer than 3.4.9, whatever the letters say.
    assert (answer.glibcxx_needed.version, answer.glibcxx_needed.library) == ("3.4.30", "libversioned.so.6")


@pytest.mark.parametrize("order", list(itertools.permutations(["3.4.9", "3.4.30", "3.4.21"])), ids="-".join)
def test_the_newest_needed_version_is_the_newest_by_number(
    build: Build, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Whatever the order in the file; 3.4.30 is newer than 3.4.9."""
    library = tmp_path / "libversioned.so.6"
    script = tmp_path / "versions.map"
    script.write_text("\n".join(f"GLIBCXX_{version} {{ global: f{index}; }};" for index, version in enumerate(order)))
    build(library, exporting("f0", "f1", "f2"), f"-Wl,-soname,{library.name}", f"-Wl,--version-script={script}")
    path = build(tmp_path / "e.so", needing("f0", "f1", "f2"), library)
    needed = against(None, path).glibcxx_needed

    assert needed is not None
    assert (needed.version, needed.needed_by) == ("3.4.30", path)


@pytest.mark.parametrize(
    ("script", "loads"),
    [
        ("V1 { global: other; }; V2 { global: helper; };", True),
        ("V1 { global: helper; }; V2 { global: other; };", False),
        ("V1 { }; V2 { global: other; };", True),
    ],
    ids=["in this version", "in the older version only", "without a version"],
)
def test_versions_of_single_symbols(build: Build, tmp_path: Path, script: str, loads: bool) -> None:
    """The library has the version, but this function in it? One without any version will do. As in reality."""
    library = tmp_path / "libversioned.so.1"
    (tmp_path / "new.map").write_text("V1 { global: other; }; V2 { global: helper; };")
    (tmp_path / "loaded.map").write_text(script)
    soname = f"-Wl,-soname,{library.name}"
    source = exporting("helper", "other")
    build(library, source, soname, f"-Wl,--version-script={tmp_path / 'new.map'}")
    path = build(tmp_path / "e.so", needing("helper"), library)
    build(library, source, soname, f"-Wl,--version-script={tmp_path / 'loaded.map'}")
    environment = {"LD_LIBRARY_PATH": str(tmp_path)}
    answer = against(None, path, **environment)

    assert (really_load(path, torch=False, environment=environment)[0] == "") is loads
    assert (answer.would_load, answer.missing_versions) == (loads, ())
    assert answer.missing_other_symbols == (() if loads else ("helper",))


def test_the_libstdcxx_that_would_be_loaded(
    build: Build, made_up_torch: TorchMaker, tmp_path: Path, here: LoaderView
) -> None:
    """An older one on LD_LIBRARY_PATH gets in first; without torch the interpreter's own search decides."""
    usual = offered_glibcxx(here)
    old = versioned(build, tmp_path / "old" / "libstdc++.so.6", "GLIBCXX_3.4.9", "CXXABI_1.3.1", "GLIBCXX_3.4.21")
    with LoaderView(
        torch_lib=None, interpreter=Path(sys.executable), environment={"LD_LIBRARY_PATH": str(old.parent)}
    ) as view:
        shadowed = offered_glibcxx(view)
        nothing_loaded = [each.elf.path for each in view.base.libraries]

    assert not isinstance(usual, Unreadable)
    assert not isinstance(shadowed, Unreadable)
    assert (old, "3.4.21", "1.3.1") == (shadowed.path, shadowed.glibcxx, shadowed.cxxabi)
    assert str(old) not in nothing_loaded
    # What real loading maps is the file that was named, and any libstdc++ of this decade has these.
    assert usual.glibcxx.startswith("3.4.")
    assert usual.cxxabi.startswith("1.3.")


def test_no_libstdcxx_anywhere(tmp_path: Path) -> None:
    """A minimal container: could not be read, and why."""
    with LoaderView(torch_lib=None, interpreter=Path(sys.executable), root=tmp_path) as view:
        answer = offered_glibcxx(view)

    assert isinstance(answer, Unreadable)
