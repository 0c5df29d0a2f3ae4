"""A family has what tells its causes apart, or a second way where the first is closed."""

from __future__ import annotations

from attn_doctor.recipes import shelf


def test_every_family_has_two_checks() -> None:
    assert [one.id for one in shelf.families() if len(one.remedies) < 2] == []
