"""Why something cannot be done by a program. Caught in make.py, where it becomes a finding that is left."""

from __future__ import annotations


class Refused(Exception):
    """The change cannot be planned; the message is the reason, in words for people."""
