"""What is told where no remedy of a recipe is possible on the machine that a log tells of."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.left import rows

EVERY = (*shelf.bundled(), *shelf.families())
SYMBOL = (
    "ImportError: /e/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
    "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
)
MODULE = "ModuleNotFoundError: No module named 'flash_attn_2_cuda'"
DEVICE = (
    "OSError: [Errno 18] Invalid cross-device link: 'flash_attn-2.5.8+cu118torch2.2cxx11abiFALSE-cp310-cp310-"
    "linux_x86_64.whl' -> '/home/user/.cache/pip/wheels/x.whl'"
)


@pytest.mark.parametrize(
    ("machine", "message", "fix"),
    [
        ("Tesla V100, torch 2.1.2+cu118", MODULE, "without-flash-attn-before-ampere"),
        ("Tesla V100, torch 2.1.2+cu118", DEVICE, "without-flash-attn-before-ampere"),
        ("torch 2.5.1+rocm6.2", SYMBOL, "without-flash-attn-on-amd"),
        ("Intel Arc A770, torch 2.5.1+xpu", MODULE, "without-flash-attn-elsewhere"),
    ],
)
def test_something_is_left(machine: str, message: str, fix: str) -> None:
    finding = explain_text(f"{machine}\n{message}", EVERY, FactSet()).diagnosis.findings[0]

    assert [one.id for one in finding.remedies] == [fix]


@pytest.mark.parametrize("message", [SYMBOL, MODULE, DEVICE])
def test_a_recipes_own_come_alone_where_they_are_possible(message: str) -> None:
    finding = explain_text(message, EVERY, FactSet()).diagnosis.findings[0]

    assert finding.remedies
    assert not {one.id for one in finding.remedies} & {one.id for _, one in rows()}
