"""What is installed is whole: recipes, scripts of patient/ and the schema are in the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.registry
def test_the_wheel_is_whole(tmp_path: Path) -> None:
    """Every recipe and every script that the checkout has is in the wheel, and nothing of the tests."""
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())

    recipes = {
        f"attn_doctor/_bundled_recipes/{file.relative_to(ROOT / 'recipes')}"
        for file in (ROOT / "recipes").rglob("*.toml")
    }
    scripts = {str(file.relative_to(ROOT)) for file in (ROOT / "attn_doctor").rglob("*.py")}
    hooks = {str(file.relative_to(ROOT)) for file in (ROOT / "attn_doctor" / "fleet" / "hooks").glob("*.*")}
    assert recipes | scripts | hooks | {"attn_doctor/formats/report_v1.schema.json"} <= names
    assert {f"attn_doctor/_bundled_docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= names
    made = {
        f"attn_doctor/_bundled_recipes/{name}"
        for name in ("shelf.json", "families.json", "tables.json", "literals.json")
    }
    assert {"attn_doctor/model/libraries.json", *made} <= names
    assert not [name for name in names if name.startswith("tests")]
