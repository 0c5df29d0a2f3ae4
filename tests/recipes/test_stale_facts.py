"""The bench that holds the shelf against the newest releases reads every recipe; no registry is asked here."""

from __future__ import annotations

import pytest
from packaging.version import Version

from attn_doctor.recipes.shelf import bundled
from bench import stale_facts


def test_requirements_of_every_kind_of_action_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A requirement that no release meets is told with its recipe; actions without one are passed over."""
    asked: list[str] = []

    def releases(name: str) -> tuple[Version, ...]:
        asked.append(name)
        return () if name == "tilelang" else (Version("1"), Version("999"))

    monkeypatch.setattr(stale_facts, "releases", releases)
    told = list(stale_facts.of_requirements(bundled()))

    assert {"tilelang", "kernels", "x-transformers"} <= set(asked)
    assert [one for one in told if one.endswith("no release meets tilelang")]
    assert list(stale_facts.of_dates(bundled())) == []
