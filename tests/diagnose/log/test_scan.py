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
    """Lines that have the words, and not in their order."""
    for at in range(8000):
        word = "".join(chr(97 + (at // 26**place) % 26) for place in range(4))
        yield f"{word} was refused " * 3


def test_a_log_of_near_misses_is_examined_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it ends with is found all the same, behind more different lines than are counted."""
    examined = 0
    window = scan._Scan._window

    def counted(self: scan._Scan, numbers: list[int], lines: list[str], begin: int, end: int, **how: bool) -> None:
        nonlocal examined
        examined += sum(map(len, lines[begin:end]))
        window(self, numbers, lines, begin, end, **how)

    monkeypatch.setattr(scan._Scan, "_window", counted)
    monkeypatch.setattr(scan, "_PATIENCE", tuple((most >> 7, rows) for most, rows in scan._PATIENCE))
    text = "\n".join([*_endless(), "RuntimeError: kernel abc was refused"])
    found = scanned(text)
    assert [match.line for match in found.matches] == [8001]
    assert examined < len(text) / 2
