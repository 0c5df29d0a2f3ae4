"""The reason why a program cannot make a change; planning/plan.py then leaves the finding open with this reason."""

from __future__ import annotations


class Refused(Exception):
    """The change cannot be planned; the message is the reason, for people."""


class Unavailable(Refused):
    """What would be installed cannot be had here and now."""
