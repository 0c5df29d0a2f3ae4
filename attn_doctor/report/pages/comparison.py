"""The page of two reports that are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn_doctor.report import comparison
from attn_doctor.report.language import say
from attn_doctor.report.pages.page import page, tag

if TYPE_CHECKING:
    from attn_doctor.report.comparison import Compared


def whole(compared: Compared) -> str:
    """The file."""
    lines = comparison.lines(compared)
    heads = tuple(say(one).partition("{")[0] for one in comparison.HEADS)
    body = tag("h1", lines[-1]) + "".join(
        tag("h2" if line and not line.startswith((" ", *heads)) else "p", line) for line in lines[:-1]
    )
    return page("attn-doctor compare", body)
