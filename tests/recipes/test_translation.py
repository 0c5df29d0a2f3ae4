"""Chinese beside the English of each recipe: the same placeholders, versions, flags and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes import shelf, translation
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.recipe import Recipe

EVERY = (*shelf.bundled(), *shelf.families())


def test_chinese_says_what_english_says() -> None:
    assert [f"{one.id}: {fault}" for one in EVERY for fault in translation.faults(one)] == []


def test_every_title_cause_and_first_fix_is_there_in_chinese() -> None:
    """What lacks is named: a recipe's zh.toml, or of a family the file in families/zh/."""
    assert [f"{one.library}/{one.id}: {name}" for one in EVERY for name in translation.lacking(one)] == []


def test_no_file_is_left_of_a_recipe_that_is_gone() -> None:
    known = {translation.file_of(one) for one in EVERY}
    folder = bundled_folder()
    assert {*folder.glob(f"*/*/{translation.FILE}"), *folder.glob("families/zh/*.toml")} - known == set()


class TestFaults:
    """Planted in the Chinese of one recipe."""

    @pytest.fixture
    def recipe(self, tmp_path: Path) -> Recipe:
        one = next(one for one in EVERY if one.id == "driver-too-old")
        return replace(one, file=tmp_path / "recipe.toml")

    def faults(self, recipe: Recipe, text: str) -> str:
        translation.file_of(recipe).write_text(text)
        translation._parsed.cache_clear()
        return " ".join(translation.faults(recipe))

    def test_placeholder_lost(self, recipe: Recipe) -> None:
        assert "other placeholders" in self.faults(recipe, 'title = "NVIDIA 驱动 {driver.version} 太旧"')

    def test_version_changed(self, recipe: Recipe) -> None:
        text = translation.file_of(next(one for one in EVERY if one.id == recipe.id)).read_text()
        assert self.faults(recipe, text) == ""
        assert "lost from the English: 525.60.13" in self.faults(recipe, text.replace("525.60.13", "525.60.31"))

    def test_flag_made_up(self, recipe: Recipe) -> None:
        said = self.faults(recipe, 'title_in_log = "NVIDIA 驱动太旧，请加 --force=yes"')
        assert "not in the English: --force=yes" in said

    def test_english_left(self, recipe: Recipe) -> None:
        assert "not Chinese" in self.faults(recipe, 'title_in_log = "The driver"')

    def test_names_of_nothing(self, recipe: Recipe) -> None:
        said = self.faults(recipe, 'titel = "驱动"\n[remedy.none]\ntitel = "修复"')
        assert said.count("is no text of") == 2
        assert "no such remedy" in said
