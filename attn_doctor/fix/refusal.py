"""The reason why a program cannot make a change; planning/plan.py then leaves the finding open with this reason."""

from __future__ import annotations


class Refused(Exception):
    """The change cannot be planned; the message is the reason, for people."""


class InCheckout(Refused):
    """The package is somebody's checkout; `diff` is what a release would change there, empty where nobody knows."""

    def __init__(self, words: str, *, name: str = "", checkout: str = "", diff: str = "") -> None:
        super().__init__(words)
        self.name = name
        self.checkout = checkout
        self.diff = diff


class Unavailable(Refused):
    """What would be installed cannot be had here and now."""
