"""pip's settings, handed on to uv."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.stack.settings import settings_of_pip


def test_files_and_variables(tmp_path: Path) -> None:
    """A variable outranks a file; a list is one of blanks or lines."""
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n  https://b.example\n  https://c.example\n"
    )
    here = {"PIP_CONFIG_FILE": str(file), "HOME": str(tmp_path), "PIP_FIND_LINKS": "/wheels"}

    found = settings_of_pip({**here, "PIP_INDEX_URL": "https://d.example/simple"})

    assert (found.index, found.extra[-2:], found.find_links) == (
        "https://d.example/simple",
        ("https://b.example", "https://c.example"),
        ("/wheels",),
    )
    assert found.for_uv()[:2] == ["--default-index", "https://d.example/simple"]


def test_uvs_own_settings_are_its_own(tmp_path: Path) -> None:
    """Nothing is handed on beside them."""
    assert settings_of_pip({"UV_INDEX_URL": "https://x.example", "PIP_INDEX_URL": "https://y.example"}).for_uv() == []


def test_no_file_at_all(tmp_path: Path) -> None:
    """As pip is told to read none."""
    assert settings_of_pip({"PIP_CONFIG_FILE": "/dev/null", "HOME": str(tmp_path)}).for_uv() == []
