"""Finds the checkout that a command builds in place: the shell's prompt names its folder, or a cd before it."""

from __future__ import annotations

import re

from attn_doctor.diagnose.log.subjects import unpacked
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_patterns import when_used

#: Texts of which one stands in every line that is read.
SIGNS = ("install", "setup.py", "wheel", "build", "cd ")
_PYTHON = r"python[\d.]{0,5}(?:\.exe)?"
_IN_PLACE = when_used(
    rf"(?:(?:pip3?(?:\.exe)?|uv pip|{_PYTHON} -m pip) (?:install|wheel) (?:-{{1,2}}[\w=-]{{1,40}} ){{0,8}}"
    r"[\"']?\.[/\\]?(?:\[[\w, -]{1,60}\])?[\"']?(?=\s|$)"
    rf"|{_PYTHON} (?:-\w )?setup\.py (?:install|develop|bdist_wheel|bdist_egg|build|build_ext)\b"
    rf"|{_PYTHON} -m build\b|\buv build\b)"
)
_CD = when_used(r"(?<![\w-])cd (?:/d )?[\"']?(?P<folder>[^\s;&|\"']{1,200})")
#: What shells print before a command: bash, that of Red Hat, Windows' two, zsh and fish, and a folder alone.
_PROMPTS = (
    when_used(r"[\w.-]{1,60}@[\w.-]{1,80}: ?(?P<folder>[~/][^\s$#]{0,200}) ?[$#]"),
    when_used(r"\[[\w.-]{1,60}@[\w.-]{1,80} (?P<folder>[\w.~-]{1,100})\] ?[$#]"),
    when_used(r"(?P<folder>\b[A-Za-z]:[\\/][^>\n]{0,200})>"),
    when_used(r"[\w.-]{1,60}@[\w.-]{1,80} (?P<folder>[\w.~/-]{1,200}) ?[%#$>]"),
    when_used(r"(?:^|\) ?)(?P<folder>[~/][^\s$#%]{1,200}) ?[$#%❯]"),
    when_used(r"➜ {1,3}(?P<folder>[\w.-]{1,100}) "),
)
_COPY = when_used(r"-(?:main|master)$")


class BuiltInPlace:
    """Follows the commands of one log."""

    def __init__(self) -> None:
        self._folder = ""
        self.found: dict[str, int] = {}
        """The known distribution that the last such command builds, and its line."""

    def see(self, text: str, number: int) -> None:
        """Reads one line."""
        if not any(map(text.__contains__, SIGNS)):
            return
        text = text[:600]
        command = _IN_PLACE.search(text)
        before = text[: command.start()] if command else text
        folders = [found["folder"] for found in _CD.finditer(before)]
        if folders:
            self._folder = folders[-1]
        elif command:
            shown = next(filter(None, (prompt.search(before) for prompt in _PROMPTS)), None)
            self._folder = shown["folder"] if shown else self._folder
        if command:
            package = _built_in(self._folder)
            self.found = {package: number} if package else {}


def _built_in(folder: str) -> str:
    """The known distribution of a checkout with this path; empty for others, whose name an index may give to another
    package.
    """
    name = re.split(r"[/\\]", folder.strip().rstrip("/\\"))[-1]
    package = unpacked(_COPY.sub("", name)) if name else ""
    return package if package in BY_NAME else ""
