"""What stands around a line is taken off; who said it is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.clean import clean, without_a_prefix
from attn_doctor.recipes import shelf

#: What launchers, containers, schedulers and terminals put before a line.
PREFIXES = (
    "trainer  | ", "my-gpt.server  | (RayWorkerWrapper pid=356) ", "worker.1.abc@node12    | ", "[bash] ",
    "(RayWorker pid=12, ip=10.0.0.1, actor_id=ab) ", "(Worker_TP0 pid=1) ERROR 05-14 09:18:09 [executor.py:870] ",
    "(raylet) ", "[rank0]: ", "[rank0]:", "    [rank1]: ", "[default3]:", "[1,7]<stderr>:", "12: ", "node12.cluster: ",
    "ip-10-0-0-1: ", "10.0.0.1: ", "[pod/trainer-0/main] ", "2026-11-22T10:00:00.123456789Z stderr F ",
    "2026-11-22T10:00:00.1234567Z ", "2026-11-22T10:00:00Z ##[error]", "::error file=a.py,line=3::",
    "build\tRun tests\t2026-11-22T10:00:00.1234567Z ", "2026-11-22T10:00:00+0000 node12 python[123]: ",
    "Nov 22 10:00:00 node12 python3[123]: ", "python3[123]: ", "ERROR:root:", "ERROR:trainer.loop:",
    "2026-11-22 10:00:00.123 | ERROR    | __main__:main:12 - ", "[2026-11-22 10:00:00,123][trainer][ERROR] - ",
    "2026-11-22 10:00:00,123 - __main__ - ERROR - ", "2026-11-22 10:00:00 ERROR train.py:12 ",
    "Mon Nov 22 10:00:00 2026 ", "[22/Nov/2026:10:00:00 +0000] ", "22-Nov-26 10:00:00 ", "10:00:00 PM ",
    "[E 2026-11-22 10:00:00,000] ", "E1122 10:00:00.123456 1234 file.cc:12] ", "    2026-11-22 10:00:00,123 ",
    "stderr: ", "stdout F ", "wandb: ", "> ", "100%|##########| 3/3 [00:01<00:00,  2.1it/s]", "?it/s]",
    "00:00<?, ?it/s]", "  0%|          | 0/100 [00:00<?, ?it/s]",
)  # fmt: skip
LINES = [
    line
    for recipe in (*shelf.bundled(), *shelf.families())
    for case in recipe.cases
    for line in (case.log or "").split("\n")
    if line.strip()
]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cannot import name &#39;a&#39; from &quot;b&quot;", "cannot import name 'a' from \"b\""),
        ("requires torch&gt;=2.4,&lt;2.6", "requires torch>=2.4,<2.6"),
        ("make && make install; echo &done;", "make && make install; echo &done;"),
    ],
)
def test_the_signs_of_a_web_page_are_read(text: str, said: str) -> None:
    assert clean(1, text).text == said


def test_quotes_within_a_printed_string_are_quotes() -> None:
    text = r"look: \'AttributeError: type object \'Kernel\' has no attribute \'hook\'"

    assert clean(1, text).text == "look: 'AttributeError: type object 'Kernel' has no attribute 'hook'"


@pytest.mark.parametrize(
    ("text", "said", "origin"),
    [
        ("[rank3]: RuntimeError: x", "RuntimeError: x", "rank 3"),
        ("[default0]:RuntimeError: x", "RuntimeError: x", "rank 0"),
        ("12: RuntimeError: x", "RuntimeError: x", "rank 12"),
        ("[1,7]<stderr>:RuntimeError: x", "RuntimeError: x", "rank 7"),
        ("[DEBUG    | DotProductAttention]: x", "x", ""),
        ("[ERROR| moon.sun]: x", "x", ""),
        ("(TrainerActor pid=12, ip=10.0.0.1)   File", "  File", "TrainerActor pid 12"),
        ("(EngineCore_0 pid=99) ERROR 05-01 12:00:00 [core.py:396] x", "x", "EngineCore_0 pid 99"),
        ("(EngineCore_0 pid=9) (VllmWorker TP1 pid=12) ERROR 08-17 22:39:35 [core.py:5] x", "x", "EngineCore_0 pid 9"),
        ("(Worker DP0 TP1 pid=12)   File", "  File", "Worker DP0 TP1 pid 12"),
        ("worker-1  | RuntimeError: x", "RuntimeError: x", "worker-1"),
        ("worker-0: Traceback (most recent call last):", "Traceback (most recent call last):", "worker-0"),
        ("2026-11-21T10:00:00.123456789Z stderr F [rank1]:   File", "  File", "rank 1"),
        ("[2026-11-21 10:00:00,123] [INFO] [axolotl.py:3] [RANK:0] x", "x", "rank 0"),
        ("Nov  1 10:00:00 node12 train[77]: x", "x", ""),
        ("4.984 RuntimeError: x", "RuntimeError: x", ""),
        ("[bash]  ERROR: x", "x", ""),
        ("ERR: x", "x", ""),
        ("ERR x", "ERR x", ""),
        ("#12 4.984 RuntimeError: x", "RuntimeError: x", ""),
        ("2026-11-21 10:00:00,123 - my.module - ERROR - x", "x", ""),
        (
            "  0%|          | 0/100 [00:00<?, ?it/s]Traceback (most recent call last):",
            "Traceback (most recent call last):",
            "",
        ),
        ("│ /a/b.py:123 in forward            │", "/a/b.py:123 in forward", ""),
        ("E   ImportError: x", "ImportError: x", ""),
        ("nvcc fatal   : Unsupported", "nvcc fatal : Unsupported", ""),
        ("CUDA error：no “kernel”", 'CUDA error:no "kernel"', ""),
        ("query.dtype: struct c10::Half", "query.dtype: c10::Half", ""),
        (r'  File "D:\x y\torch\nn.py", line 3', '  File "D:/x y/torch/nn.py", line 3', ""),
        (r"flash-attention/hopper\flash_fwd.h:188", "flash-attention/hopper/flash_fwd.h:188", ""),
    ],
)
def test_taken_off(text: str, said: str, origin: str) -> None:
    """Each prefix that launchers write, and several in a row."""
    line = clean(1, text)

    assert (line.text, line.origin) == (said, origin)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_prefix_changes_a_line(prefix: str) -> None:
    """Of any line of any text on the shelf the same is left, whatever stands before it."""
    lines = LINES[PREFIXES.index(prefix) % 4 :: 4]
    changed = [line for line in lines if clean(1, prefix + line).text.strip() != clean(1, line).text.strip()]

    assert len(LINES) > 500
    assert changed == []


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: 12:00 is no time",
        "RuntimeError: FlashAttention only support fp16 and bf16 data type",
        "libcudart.so.12: cannot open shared object file: No such file or directory",
        "/usr/lib/python3.10/importlib/__init__.py:126: in import_module",
        r"KeyError: 'a\nb'",
        "[12/49] nvcc -c a.cu",
        "1.2.3 is a version",
        "    indented()",
    ],
)
def test_left_alone(text: str) -> None:
    """What only looks like a prefix is part of the message."""
    assert clean(1, text).text == text


_TRACEBACK = ("Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()", "ValueError: no")


@pytest.mark.parametrize("prefix", ["train-0 main ", "job/7 | worker {} -> ", "<<host-{}>>: "])
def test_an_unknown_prefix_is_what_a_traceback_shows_as_one(prefix: str) -> None:
    """Whatever stands before its head and its first frame, numbers apart, is taken off each line that has it."""
    said = ["step 1", *_TRACEBACK, "step 2"]
    lines = [clean(number, prefix.format(number) + text) for number, text in enumerate(said, start=1)]
    others = [clean(7, "nothing before it")]

    left = [line.text for line in without_a_prefix([*lines, *others])]

    assert [text.strip() for text in left] == [text.strip() for text in (*said, "nothing before it")]


def test_without_a_traceback_nothing_is_a_prefix() -> None:
    """What stands before the head alone is the message of a logger."""
    lines = [clean(1, "it failed: Traceback (most recent call last):"), clean(2, '  File "a.py", line 3, in f')]

    assert without_a_prefix(lines) == lines


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"log": '  File "a.py", line 3\n', "stream": "stderr"}, '  File "a.py", line 3'),
        ({"ts": 1, "level": "error", "msg": "KeyError: 'a'"}, "KeyError: 'a'"),
        ({"textPayload": "\x1b[31mValueError: 中\x1b[0m"}, "ValueError: 中"),
        ({"loss": 2.1, "step": 3}, '{"loss": 2.1, "step": 3}'),
    ],
)
def test_a_record_in_json_is_what_it_says(record: dict[str, object], said: str) -> None:
    """A line of docker's json-file or of a structured logger; a trainer's numbers stay."""
    assert clean(1, json.dumps(record)).text == said


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    """Nothing that a log holds breaks it, and cleaning twice is cleaning once in most of what matters: no growth."""
    line = clean(7, text.replace("\n", " "))

    assert line.number == 7
    assert len(line.text) <= 4 * len(text) + 8


def test_a_loss_that_is_no_number_is_kept_of_a_bar() -> None:
    """Many trainers name it there alone; where a message stands behind the bar, that is the line."""
    bar = "steps:   0%|     | 2/1600 [00:13<3:02:54,  6.87s/it, avr_loss=nan]"

    assert clean(1, bar).text == "loss=nan"
    assert clean(1, bar + "ValueError: it broke").text == "ValueError: it broke"
    assert clean(1, bar.replace("nan", "0.12")).text == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[0;31mImportError[0m: there is no moon", "ImportError: there is no moon"),
        ("[38;5;28;01mfrom[39;00m moon", "from moon"),
        ("a list of [3m] and [31m]", "a list of [3m] and [31m]"),
    ],
)
def test_colours_whose_escape_was_lost(text: str, left: str) -> None:
    assert clean(1, text).text == left


def test_names_that_a_page_made_bold_are_pythons() -> None:
    assert (
        clean(1, 'File "/w/openrlhf/utils/**init**.py", line 3').text == 'File "/w/openrlhf/utils/__init__.py", line 3'
    )
    assert clean(1, "**Describe the bug** a ** b").text == "**Describe the bug** a ** b"
