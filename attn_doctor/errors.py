"""Every exception raised on purpose. Each says what happened, what it was about, and what to do.

    AttnDoctorError
    ├── BadInput          a file, flag or value that a person gave          exit status 2
    │   └── BrokenRecipe  a recipe file with all its faults                 exit status 2
    └── TargetUnusable    the interpreter to examine cannot be examined     exit status 3

Anything else that escapes is a bug of ours: the command line writes a log and exits with 70.
"""

from __future__ import annotations


class AttnDoctorError(Exception):
    """The root. `what` happened, `about` what, and a `hint` what to do; printed without a traceback."""

    exit_status = 3

    def __init__(self, what: str, *, about: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.about = about
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.about, self.hint) if part)


class BadInput(AttnDoctorError):
    """A person's file, flag or value is wrong."""

    exit_status = 2


class BrokenRecipe(BadInput):
    """A recipe file does not follow the format; `about` lists every fault with its path in the file."""


class TargetUnusable(AttnDoctorError):
    """The interpreter that was to be examined is missing, does not start, or does not answer."""

    exit_status = 3
