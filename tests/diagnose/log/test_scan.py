"""What of a log that is nothing but failures is examined and explained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attn_doctor.diagnose.log import scan
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from tests.diagnose.log.making import made

pytestmark = pytest.mark.unit


def scanned(text: str) -> Scanned:
    """By one recipe."""
    recipe = made("refused", {"pattern": r"kernel (?P<name>\w+) was refused"})
    return Scanner(Patterns([recipe])).scan("train.log", [text])


def test_of_many_messages_of_a_kind_the_first_and_the_last_are_explained() -> None:
    lines = [f"RuntimeError: kernel k{word}x was refused" for word in range(400)]
    found = scanned("\n".join(lines))
    told = [match.line for match in found.matches]
    assert told == [*range(1, scan._FIRST + 1), *range(400 - scan._LAST + 1, 401)]
    assert found.failures == 400


def test_the_same_message_is_explained_for_each_rank() -> None:
    lines = [f"[rank{rank}]: RuntimeError: kernel abc was refused" for rank in range(400)]
    found = scanned("\n".join(lines))
    assert {match.unit.origin for match in found.matches} == {f"rank {rank}" for rank in range(400)}


def _endless() -> Iterator[str]:
    """Twelve megabytes of lines that each begin with the words, and end otherwise."""
    for at in range(6000):
        word = "".join(chr(97 + (at // 26**place) % 26) for place in range(4))
        yield f"kernel {word} " * 150 + word


def test_a_log_of_near_misses_is_examined_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it ends with is found all the same."""
    examined = 0
    window = scan._Scan._window

    def counted(self: scan._Scan, numbers: list[int], lines: list[str], begin: int, end: int, **how: bool) -> None:
        nonlocal examined
        examined += sum(map(len, lines[begin:end]))
        window(self, numbers, lines, begin, end, **how)

    monkeypatch.setattr(scan._Scan, "_window", counted)
    again = [line for line in _endless() for _ in range(3)]
    text = "\n".join([*again, "RuntimeError: kernel abc was refused"])
    found = scanned(text)
    assert [match.line for match in found.matches] == [len(again) + 1]
    assert examined < len(text) / 3
