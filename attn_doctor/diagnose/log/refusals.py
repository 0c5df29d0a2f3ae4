"""Whose check refuses, and by what a size divides: for messages of packages that no recipe knows by their words.

A package says in a sentence of its own what it does not take. The sentence is in no list; who says it and what its
numbers leave as a choice can be computed.
"""

from __future__ import annotations

import re

from attn_doctor.diagnose.log.owners import owner
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.quick_patterns import when_used

#: Packages that only call the code which refuses: servers, event loops, wrappers of commands.
_CALLERS = frozenset(
    {"gradio", "uvicorn", "starlette", "fastapi", "anyio", "click", "typer", "fire", "hydra", "joblib", "tqdm", "ray"}
)
#: `Unsloth: …`, `[lmdeploy] …`, `your current Unsloth version`: a message that names its program.
_NAMED = when_used(
    r"(?:Error|Exception): \[?(?P<first>[A-Z][A-Za-z]\w{2,24})\]?: "
    r"|\b(?:your|this|the) (?:current |installed )?(?P<version>[A-Z][\w.-]{2,24}) (?:version|release)\b"
)
_FILE = when_used(r"(?P<file>[\w.-]+\.(?:py|cu|cpp|cc|cuh|hpp|h))$")
#: `14310 … divisible by … 4`: a number, the verb, the number by which it shall divide; and the names of both.
_DIVIDES = when_used(
    r"(?P<size>(?<![\w.])\d{1,9}(?![\w.]))[^\n]{0,120}?\b(?:divisible|divisable|divides?|divided|multiples?)\b"
    r"[^\n\d]{0,80}(?P<by>\d{1,6}(?![\w.]))"
)
_TOLD_LATER = when_used(
    r"\b(?:divisible|multiples?)\b[^\n\d]{0,80}(?P<by>\d{1,6}(?![\w.]))[^\n]{0,60}?"
    r"\b(?:got|but|is|was|found|has)\b[^\n\d]{0,40}(?P<size>\d{1,9}(?![\w.]))"
)
#: einops: `can't divide axis of length 3 in chunks of 7`.
_IN_CHUNKS = when_used(r"\bdivide axis of length (?P<size>\d{1,9}) in chunks of (?P<by>\d{1,6})(?![\w.])")
#: Divisors that a number of GPUs, heads or groups may have.
_MOST, _LARGEST = 10, 512


def refuser(message: str, files: list[str], owners: list[str]) -> str | None:
    """The package or file whose code refuses, as a person knows it; None where nothing names one.

    `files` and `owners` are those of the frames, the innermost last: an import name each.
    """
    named = _NAMED.search(message)
    said = (named["first"] or named["version"]) if named else None
    if said and owner(f"{said.lower()}/__init__.py"):  # `Shape: …` and `Invalid: …` name no package
        return said
    innermost = files[-1] if files else ""
    own = [name for name in owners if name not in _CALLERS]
    file = _FILE.search(innermost)
    if own and (not file or _is_of(innermost, own[-1])):
        return distribution_of(own[-1])
    return f"The code in {file['file']}" if file else None


def _is_of(path: str, package: str) -> bool:
    """True where the path goes through the package's folder, or is its compiled file."""
    return re.search(rf"(?:^|[/\\]){re.escape(package)}(?:[/\\.]|$)", path) is not None


def divides_by(message: str) -> str | None:
    """What divides the size that a message says does not divide, and the sizes next to it that its divisor divides:
    `14310 is divided by 2, 3, 5; 4 divides 14308 and 14312`; None where it names no two numbers of which that is true.
    """
    found = _DIVIDES.search(message) or _TOLD_LATER.search(message) or _IN_CHUNKS.search(message)
    if found is None:
        return None
    size, by = int(found["size"]), int(found["by"])
    if by < 2 or not size % by:
        return None
    divisors = [one for one in range(2, min(size, _LARGEST) + 1) if size % one == 0][:_MOST]
    if not divisors:
        return f"{size} is divided by no number up to {_LARGEST}"
    near = size // by * by or by
    return f"{size} is divided by {', '.join(map(str, divisors))}; {by} divides {near} and {near + by}"
