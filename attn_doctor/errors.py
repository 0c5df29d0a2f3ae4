"""The exceptions that are raised on purpose. Each has three parts: what happened, what it concerns, what to do.

    AttnDoctorError
    ├── BadInput          an invalid file, option or value from the user    exit status 2
    │   └── BrokenRecipe  a recipe file with all its faults                 exit status 2
    ├── AttentionTrouble  a guard of a training run that was asked to stop it found something
    ├── TargetUnusable    the interpreter cannot be examined                exit status 3
    └── NotKept           a report could not be written, and was printed    exit status 6

Any other exception is a bug of attn-doctor: the command line writes a log and exits with 70.
"""

from __future__ import annotations


class AttnDoctorError(Exception):
    """The base class. `what` happened, `about` which thing, and a `hint` what to do; printed without a traceback."""

    exit_status = 3

    def __init__(self, what: str, *, about: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.about = about
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.about, self.hint) if part)


class BadInput(AttnDoctorError):
    """A file, option or value from the user is invalid."""

    exit_status = 2


class BrokenRecipe(BadInput):
    """A recipe file does not follow the format; `about` lists every fault with its path in the file."""


class NotKept(AttnDoctorError):
    """The examination took place, and its report could not be written where it was wanted: a read-only folder."""

    exit_status = 6


class AttentionTrouble(AttnDoctorError):
    """A guard found that attention goes wrong in the run, and its policy is to stop it (`watch(every=…)`)."""


class TargetUnusable(AttnDoctorError):
    """The interpreter to examine is missing, does not start, or does not answer."""

    exit_status = 3
