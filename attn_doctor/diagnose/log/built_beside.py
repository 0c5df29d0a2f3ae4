"""Tells lines of pip's own build environment: it installs the newest torch there, which is not the one that is there.

Without --no-build-isolation a setup.py imports that torch, prints its release and fails for its CUDA.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

_BEGINS = when_used(r"pip-build-env-\w+[/\\]overlay[/\\].{0,60}?site-packages[/\\]torch[/\\]")
_ENDS = when_used(r"\[end of output\]|This error originates|PyTorch version|Collecting environment")


class BuiltBeside:
    """Where a log is, as lines are read in order."""

    def __init__(self) -> None:
        self.now = False
        """What is said of torch is said of that one."""

    def see(self, text: str) -> None:
        """Reads one line."""
        if "pip-build-env" in text and _BEGINS.search(text):
            self.now = True
        elif self.now and _ENDS.search(text):
            self.now = False
