"""Spans of time as people write them on the command line; light, for `status` has to be quick."""

from __future__ import annotations

import re
from datetime import timedelta

from attn_doctor.errors import BadInput


def span(text: str, *, flag: str) -> timedelta:
    """90s, 30m, 6h, 7d; a plain number is seconds.

    Raises BadInput.
    """
    match = re.fullmatch(r"(\d{1,6})\s*([smhd]?)", text.strip())
    if match is None:
        raise BadInput("that is no span of time", about=f"{flag} {text}", hint="For example 90s, 30m, 6h, 7d.")
    return timedelta(seconds=int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]])
