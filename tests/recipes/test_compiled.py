"""What a checkout's tests keep of the shelf, and when it counts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from attn_doctor.recipes import compiled, kept, shelf

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout's recipes: a small part of the shelf."""
    folder = tmp_path / "recipes"
    whole = kept.bundled_folder()
    for name in ("flash-attn/flash-attn-not-installed/recipe.toml", "families/tpus.toml", *compiled.TABLES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(whole / name, folder / name)
    return folder


def _file(folder: Path) -> Path | None:
    kept.file_of.cache_clear()
    kept._is_kept.cache_clear()
    return kept.file_of(folder, compiled.COMPILED)


def test_what_is_kept_is_read_while_its_sources_stay(folder: Path) -> None:
    assert _file(folder) is None
    compiled.keep(folder)

    file = _file(folder)
    assert file is not None
    assert json.loads(file.read_text()) == json.loads(compiled.compile_shelf(folder))
    assert not list(folder.rglob("*.json"))  # a wheel takes all that lies in the folder


def test_a_source_that_changed_is_read_itself(folder: Path) -> None:
    compiled.keep(folder)
    source = folder / "families" / "tpus.toml"
    os.utime(source, ns=(0, 0))
    assert _file(folder) is None


def test_a_source_that_came_or_went_is_noticed(folder: Path) -> None:
    compiled.keep(folder)
    shutil.copy2(folder / "families" / "tpus.toml", folder / "families" / "more.toml")
    assert _file(folder) is None
    (folder / "families" / "more.toml").unlink()
    assert _file(folder) is not None
    (folder / "families" / "tpus.toml").unlink()
    assert _file(folder) is None


def test_a_recipe_of_another_library_is_another_source(folder: Path) -> None:
    """Its file is called as before, and is as old and as long."""
    compiled.keep(folder)
    (folder / "flash-attn").rename(folder / "flash-attn-2")
    assert _file(folder) is None


def test_a_half_written_one_does_not_count(folder: Path) -> None:
    compiled.keep(folder)
    (folder.parent / ".compiled" / "made_of.json").write_text("[")
    assert _file(folder) is None


def test_remedies_and_cases_are_read_when_they_are_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are in the sources; also where an update took the files away meanwhile."""
    asked: list[tuple[int, int]] = []
    detailed = shelf._detailed
    monkeypatch.setattr(shelf, "_detailed", lambda details, place: (asked.append(place), detailed(details, place))[1])
    monkeypatch.setattr(shelf, "bundled_folder", lambda: folder)
    sources = (*shelf.bundled(), *shelf.families())
    compiled.keep(folder)
    assert _file(folder) is not None
    read = (*shelf.bundled(), *shelf.families())
    shutil.rmtree(folder.parent / kept.KEPT)

    assert [one.id for one in read] == [one.id for one in sources]
    assert asked == []
    assert read == sources
    for one, source in zip(read, sources, strict=True):
        assert (*one.remedies,) == (*source.remedies,)
        assert (one.case_tables, one.cases) == (source.case_tables, source.cases)
    assert any(one.remedies for one in read)
    assert asked


@pytest.mark.parametrize("name", [compiled.DETAILS, compiled.FAMILY_DETAILS])
def test_without_the_details_the_sources_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compiled.keep(folder)
    (folder.parent / kept.KEPT / name).unlink()
    assert _file(folder) is not None
    monkeypatch.setattr(shelf, "bundled_folder", lambda: folder)
    assert all(one.case_tables for one in (*shelf.bundled(), *shelf.families()))
