"""What of a log that is nothing but failures is examined and explained."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from attn_doctor.diagnose.log import budget, scan
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from tests.diagnose.log.making import made

pytestmark = pytest.mark.unit


def scanned(text: str) -> Scanned:
    """By one recipe."""
    recipe = made("refused", {"pattern": r"kernel (?P<name>\w+) was refused"})
    return Scanner(Patterns([recipe])).scan("train.log", [text])


def _word(at: int) -> str:
    return "".join(chr(97 + (at // 26**place) % 26) for place in range(4))


def test_of_many_messages_of_a_kind_the_first_and_the_last_are_explained() -> None:
    lines = [f"RuntimeError: kernel {_word(at)} was refused" for at in range(400)]
    found = scanned("\n".join(lines))
    told = [match.line for match in found.matches]
    assert told == [*range(1, scan._FIRST + 1), *range(400 - scan._LAST + 1, 401)]
    assert found.failures == 400


def test_a_message_is_explained_for_each_rank_whatever_its_numbers() -> None:
    lines = [f"[rank{rank}]: RuntimeError: kernel abc was refused {rank}.5 GiB" for rank in range(400)]
    found = scanned("\n".join(lines))
    assert {match.unit.origin for match in found.matches} == {f"rank {rank}" for rank in range(400)}


def _near(count: int) -> Iterator[str]:
    """Lines that have the words, and not in their order."""
    for at in range(count):
        yield f"{_word(at)} was refused " * 3


@pytest.mark.parametrize("count", [5000, 20_000])  # fewer and more than are counted one by one
def test_a_log_of_near_misses_is_examined_in_part(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """And what it ends with is found all the same."""
    examined = 0
    window = scan._Scan._window

    def counted(self: scan._Scan, numbers: list[int], lines: list[str], begin: int, end: int, **how: bool) -> None:
        nonlocal examined
        examined += sum(map(len, lines[begin:end]))
        window(self, numbers, lines, begin, end, **how)

    monkeypatch.setattr(scan._Scan, "_window", counted)
    monkeypatch.setattr(budget, "_PATIENCE", tuple((most >> 8, rows) for most, rows in budget._PATIENCE))
    ended = ["RuntimeError: kernel abc was refused", *(f"[rank{rank}]: closed by peer" for rank in range(2000))]
    text = "\n".join([*_near(count), *ended])
    found = scanned(text)
    assert [match.line for match in found.matches] == [count + 1]
    assert found.examined_in_part
    assert examined < len(text) / 2


def test_requests_that_differ_in_their_ids_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not use up what is examined."""
    monkeypatch.setattr(budget, "_PATIENCE", tuple((most >> 8, rows) for most, rows in budget._PATIENCE))
    retries = [f"request {uuid.UUID(int=at * 977**11)} was refused" for at in range(4000)]
    ended = ["RuntimeError: kernel abc was refused", *(f"step {step}" for step in range(5000))]
    found = scanned("\n".join([*retries, *ended]))
    assert [match.line for match in found.matches] == [4001]
    assert not found.examined_in_part
