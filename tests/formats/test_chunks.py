"""Reports cut into lines and joined again."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.formats import chunks

texts = st.one_of(
    st.text(max_size=50), st.integers(1, 40_000).map(lambda size: random.Random(size).randbytes(size).hex())
)


@given(
    reports=st.lists(
        st.tuples(st.text(min_size=1, max_size=200), texts), min_size=1, max_size=4, unique_by=lambda one: one[1]
    ),
    chaos=st.randoms(use_true_random=False),
    noise=st.lists(st.text(max_size=30).filter(lambda text: "AD1 " not in text), max_size=5),
)
def test_any_order_and_any_repetition(reports: list[tuple[str, str]], chaos: random.Random, noise: list[str]) -> None:
    """Frames of several reports, shuffled, doubled and among other lines, give back the same reports."""
    lines = [line for node, text in reports for line in chunks.frames(node, text)]
    lines += chaos.choices(lines, k=len(lines) // 2) + noise
    chaos.shuffle(lines)

    joined = chunks.join(lines)

    assert sorted(one.text or "" for one in joined) == sorted(text for _, text in reports)
    assert all(not one.fault for one in joined)


@given(node=st.text(min_size=1, max_size=300), text=texts)
def test_every_line_is_short_and_whole(node: str, text: str) -> None:
    """At most 900 bytes with the line's end, four words, whatever the node is called."""
    for line in chunks.frames(node, text):
        assert len(f"{line}\n".encode()) <= chunks.LONGEST_LINE
        assert len(line.split()) == 4
        assert line.isascii()


def test_a_lost_line_is_told() -> None:
    """What is missing is named with its node; the report is not made up of what is left."""
    lines = list(chunks.frames("n7", random.Random(1).randbytes(9000).hex()))

    (joined,) = chunks.join(line for line in lines if " 3/" not in line)

    assert (joined.node, joined.text) == ("n7", None)
    assert f"1 of {len(lines)} chunks are missing, 3 the first" in joined.fault


def test_a_changed_line_is_told() -> None:
    """A frame that lost characters on the way makes its report unreadable, and nothing else."""
    good = list(chunks.frames("n8", "fine"))
    lines = list(chunks.frames("n7", random.Random(1).randbytes(9000).hex()))
    lines[2] = lines[2][:-8]

    joined = {one.node: one for one in chunks.join([*good, *lines])}

    assert joined["n7"].text is None
    assert "do not fit" in joined["n7"].fault
    assert joined["n8"].text == "fine"


@pytest.mark.parametrize("dress", ["3: {}", "n7: {}", "2026-11-21T05:00:00Z stdout F {}", "[default0]:{}", "{}\r"])
def test_lines_that_others_have_dressed(dress: str) -> None:
    """srun --label, clush, a container runtime and torchrun put words around a line."""
    (joined,) = chunks.join(dress.format(line) for line in chunks.frames("n7", "a report"))

    assert joined.text == "a report"


@pytest.mark.parametrize(
    "line",
    ["AD1", "AD1 n 0/1 AAAAAAAA", "AD1 n 2/1 AAAAAAAA", "AD1 n 1/1 AAA", "AD1 n 1/999999 AAAAAAAA", "AD1 n 1/1 AAAA"],
)
def test_what_is_no_frame(line: str) -> None:
    """Numbers out of range, broken base64 and empty pieces are no frames."""
    assert chunks.frame_in(line) is None


@pytest.mark.long
def test_a_bomb_is_not_unpacked() -> None:
    """A few kilobytes that would become a gigabyte are told as too large."""
    (joined,) = chunks.join(chunks.frames("n7", "0" * (chunks._LARGEST + 1)))

    assert joined.text is None
    assert "larger than" in joined.fault
