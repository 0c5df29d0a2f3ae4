"""Chunks become numbered lines, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.lines import PIECE, blocks


def read(*chunks: str) -> list[tuple[int, str]]:
    return [(number, line) for block in blocks(chunks) for number, line in zip(block.numbers, block.lines, strict=True)]


@given(lines=st.lists(st.text("ab \t", max_size=20), min_size=1), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_chunks_end_anywhere(lines: list[str], cuts: list[int]) -> None:
    """Where the text is cut makes no difference."""
    text = "\n".join(lines)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    chunks = [text[a:b] for a, b in pairwise(places)]

    assert read(*chunks) == read(text)


def test_numbers_are_those_of_the_file() -> None:
    """Carriage returns, colours and endless lines do not shift them."""
    text = f"one\r\n10%\r20%\rdone\n\x1b[31mthree\x1b[0m\n{'x' * (3 * PIECE)}\nfive"

    assert read(text)[0] == (1, "one")
    assert (2, "done") in read(text)
    assert (3, "three") in read(text)
    assert read(text)[-1] == (5, "five")
    assert all(len(line) <= PIECE for _, line in read(text))


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("\n", 1), ("a\nb", 2), ("a\n\n", 2), ("a\r\nb\r\n", 2)]
)
def test_the_last_line_s_end_begins_no_line(text: str, count: int) -> None:
    """Lines are counted as `wc -l` and editors do; a last line without an end is one all the same."""
    assert len(read(text)) == count
    assert len(read(*text)) == count


def test_a_line_of_many_megabytes() -> None:
    """It is looked at in pieces that overlap, all of one number."""
    lines = read(*["y" * 1_000_000] * 9, "needle", "\nlast")

    assert {number for number, line in lines if "y" in line} == {1}
    assert any("needle" in line for _, line in lines)
    assert lines[-1] == (2, "last")


@pytest.mark.parametrize("rubbish", ["." * 3000, "loss 0.1 " * 400_000, "x" * 60_000 + " "])
@pytest.mark.parametrize(
    "message", ["RuntimeError: no", "torch.cuda.OutOfMemoryError: no", "Traceback (most recent call last):"]
)
def test_a_message_at_the_end_of_an_endless_line(rubbish: str, message: str) -> None:
    """It is a line of its own, with the number of the line that it stands in."""
    lines = read("before\n", rubbish, message, "\nafter\n")

    assert (2, message) in lines
    assert lines[-1] == (3, "after")


@pytest.mark.parametrize("line", ['{"text": "' + "x " * 2000 + 'RuntimeError: no"}', "see: RuntimeError: no"])
def test_a_message_that_is_quoted(line: str) -> None:
    """Text that somebody logs, or a line of usual length, is not cut open."""
    assert not any(text.startswith("RuntimeError") for _, text in read(line))


def test_broken_lines_are_joined() -> None:
    """Lines that were broken at a terminal's width are whole again, and have the number of their first part."""
    long = "RuntimeError: " + "word " * 60
    broken = [long[at : at + 100] for at in range(0, len(long), 100)]

    assert (2, long) in read("\n".join(["step", *broken, "step"]))


def test_broken_lines_at_the_end_of_a_chunk() -> None:
    """Where the text is read in pieces, a broken line stays whole."""
    long = "RuntimeError: " + "word " * 60
    broken = "\n".join(long[at : at + 100] for at in range(0, len(long), 100))

    assert [line for _, line in read(*broken)] == [long]


def test_lines_of_one_length_are_not_joined() -> None:
    """A table's lines are no broken line."""
    rows = [f"[2026-11-21 10:00:{second:02}] {'x' * 70}" for second in range(50)]

    assert [line for _, line in read("\n".join(rows))] == rows


@pytest.mark.parametrize("line", ["pear " * 20 + "!", "pear " * 19 + "nuts!", " => step of a build" + "." * 80])
def test_a_line_that_is_repeated_does_not_go_on_with_itself(line: str) -> None:
    """Seven times the same words are seven lines, at any length."""
    assert [text for _, text in read("\n".join([line] * 7))] == [line] * 7


def test_two_lines_in_turn_are_not_joined() -> None:
    """However often: their length is that of two lines, not of many."""
    lines = ["pear " * 20 + "!", "bean " * 20 + "!"] * 4

    assert [text for _, text in read("\n".join(lines))] == lines


def test_a_traceback_inside_a_string() -> None:
    """Error files of launchers hold tracebacks as JSON."""
    lines = read('{"message": "Traceback (most recent call last):\\n  File \\"a.py\\", line 1\\nRuntimeError: x"}')

    assert [line for _, line in lines][1] == '  File "a.py", line 1'


@pytest.mark.parametrize("width", [79, 80])
@pytest.mark.parametrize("steps", [50, 3500])
def test_one_message_of_a_usual_width_is_no_broken_line(width: int, steps: int) -> None:
    """What follows it begins like many other lines."""
    message = "RuntimeError: expected mat1 and mat2 to have the same dtype".ljust(width, "!")
    lines = [f"step {number} loss=2.1" for number in range(steps)]
    lines.insert(steps // 2, message)

    assert [line for block in blocks(["\n".join(lines)]) for line in block.lines] == lines


@pytest.mark.parametrize("below", ["torch 2.0.1", "My GPU is an RTX 3090", "litgpt finetune, no changes"])
def test_what_its_writer_puts_below_a_message_of_a_usual_width_is_a_line_of_its_own(below: str) -> None:
    message = "RuntimeError: \"triu_tril_cuda_template\" not implemented for 'BFloat16'"
    assert len(message) == 70
    assert read(f"{message}\n{below}\n") == [(1, message), (2, below)]


def test_one_line_that_was_broken_within_a_word_is_joined() -> None:
    message = "RuntimeError: FlashAttention forward only supports head dimension at m"
    assert read(f"{message}\nost 256\n") == [(1, message + "ost 256")]


def test_what_a_linker_says_goes_on_with_no_command() -> None:
    """A command of a usual width stands above it, and was not broken there."""
    lines = ["g++ -shared a.o -lcuda -o build/lib/a.so".ljust(110, "x"), "/usr/bin/ld: cannot find -lcuda"]

    assert [line for _, line in read("\n".join(lines))] == lines


def test_traceback_pasted_as_one_line() -> None:
    text = (
        'Traceback (most recent call last): File "D:\\ComfyUI (1)\\nodes.py", line 22, in load run(m) ~~~^^^ '
        "File \"<frozen importlib>\", line 10, in run import gguf ModuleNotFoundError: No module named 'gguf'"
    )

    assert [line.split()[0] for _, line in read(text)] == ["Traceback", "File", "File", "ModuleNotFoundError:"]


def test_a_text_that_is_a_comment_as_a_whole_loses_its_marks() -> None:
    """A log that somebody kept in a script; with one line of code among it, it is that script."""
    log = (
        '# Traceback (most recent call last):\n#   File "/e/torch/nn/a.py", line 3, in f\n'
        "#     assert x\n# ValueError: y"
    )

    assert [text for _, text in read(log)] == [line.removeprefix("# ") for line in log.splitlines()]
    assert [text for _, text in read(log + "\nimport torch")] == [*log.splitlines(), "import torch"]


def test_an_exception_behind_a_line_of_a_usual_width_is_a_line_of_its_own() -> None:
    text = f"{'a word ' * 15}"[:100] + "\nException: no moon\n"
    assert [line for block in blocks([text]) for line in block.lines][1] == "Exception: no moon"
