"""A text that ends within the message of an import says what the line of code above it asked for."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.ended import completed
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf


def _last(text: str) -> str:
    lines = [Line(number=number, text=line) for number, line in enumerate(text.splitlines(), start=1)]
    return [line.text for line in completed(lines) if line.text.strip()][-1]


@pytest.mark.parametrize(
    ("code", "cut", "whole"),
    [
        ("from flash_attn import f, g", "ImportError: c", "ImportError: cannot import name 'f' from 'flash_attn'"),
        ("from a import f, g", "ImportError: cannot import name 'g", "ImportError: cannot import name 'g' from 'a'"),
        ("import deepspeed", "ModuleNotFoundError: No mod", "ModuleNotFoundError: No module named 'deepspeed'"),
        ("from a.b import c", "ModuleNotFoundError: No module named 'a.", "ModuleNotFoundError: No module named 'a.b'"),
    ],
)  # fmt: skip
def test_the_line_of_code_completes_it(code: str, cut: str, whole: str) -> None:
    assert _last(f'  File "x.py", line 3, in <module>\n    {code}\n{cut}') == whole
    assert _last(f'  File "x.py", line 3, in <module>\n    {code}\n    ^^^^^^\n{cut}\n\n') == whole


@pytest.mark.parametrize(
    ("code", "cut"),
    [
        ("from flash_attn import f", "ImportError: DLL load failed"),
        ("from flash_attn import f", "ImportError: cannot import name 'f' from 'flash_attn' (unknown location)"),
        ("from .near import f", "ImportError: cann"),
        ("load(f)", "ImportError: cann"),
        ("import deepspeed", "ModuleNotFoundError: No module named 'mpi4py'"),
    ],
)
def test_what_is_whole_or_of_something_else_stays(code: str, cut: str) -> None:
    assert _last(f"    {code}\n{cut}") == cut


def test_the_answer_is_about_the_whole_message() -> None:
    text = (
        '  File "/e/lib/python3.10/site-packages/transformers/models/llama/modeling_llama.py", line 45, in <module>\n'
        "    from flash_attn import flash_attn_func, flash_attn_varlen_func\n"
        "ImportError: c"
    )
    told = explain_text(text, shelf.bundled(), FactSet()).diagnosis.findings
    assert "flash-attn-api-generation-mismatch" in {one.id for one in told}
