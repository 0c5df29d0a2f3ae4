"""`attn-doctor help`: pages of the documentation."""

from __future__ import annotations

from tests.conftest import CHECKOUT as ROOT
from tests.conftest import Doctor


def test_a_page_as_it_is_written(doctor: Doctor) -> None:
    """Off a terminal the page itself, so that it can be piped on; the list names each with its title."""
    page = doctor("help", "exit-status")
    listed = doctor("help")

    assert (page.status, page.stdout) == (0, (ROOT / "docs" / "exit-status.md").read_text())
    assert "exit-status  Exit statuses" in listed.stdout
    assert "testing" not in listed.stdout


def test_a_mistyped_page_is_told_the_one_that_it_resembles(doctor: Doctor) -> None:
    """And what there is."""
    refused = doctor("help", "traec")

    assert (refused.status, refused.stdout) == (2, "")
    assert "Did you mean trace?" in refused.stderr
