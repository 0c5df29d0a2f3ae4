"""Casting the float32 operand that a trace named, where it meets the half one."""

from __future__ import annotations

import pytest

from attn_doctor.fix.edits.operand import Meeting, meeting, splices, warnings
from attn_doctor.fix.edits.source import check
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Fact, FactName, FactSet, Known


def edited(source: str, name: str = "scale", operator: str = "mul", line: int = 1) -> str:
    content = source.encode()
    after = spliced(content, splices(content, Meeting(file="m.py", line=line, operator=operator, name=name)))
    check(after, "m.py")
    return after.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("q = q * self.scale", "q = q * self.scale.to(q.dtype)"),
        ("k = self.scale * self.k  # scale * k", "k = self.scale.to(self.k.dtype) * self.k  # scale * k"),
        ("é = f('scale * q', q * scale)\r\n", "é = f('scale * q', q * scale.to(q.dtype))\r\n"),
        ("\ufeffq = (q *\n     m.a.scale)", "\ufeffq = (q *\n     m.a.scale.to(q.dtype))"),
        ("q = q * scale + bias", "q = q * scale.to(q.dtype) + bias"),
    ],
)
def test_the_operand_is_cast(before: str, after: str) -> None:
    """To the dtype of what it meets, in that expression alone."""
    assert edited(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "q = f(x) * scale",
        "q = q * k * scale",
        "q = q + scale",
        "q = q * other",
        "q = q * scale; k = k * scale",
        "q = torch.mul(q, scale)",
        "q = q * scale[0]",
        "q = q * (scale",
    ],
)
def test_what_a_program_cannot_know_is_left(source: str) -> None:
    """What it meets has no name, another operation, twice on a line, a call."""
    with pytest.raises(Refused):
        edited(source)


def test_tables_of_positions_are_told() -> None:
    """Half precision makes neighbouring positions one."""
    at = Meeting(file="m.py", line=1, operator="mul", name="inv_freq")

    assert "positions" in warnings(at)[0]
    assert warnings(Meeting(file="m.py", line=1, operator="mul", name="scale")) == ()


SOUND = {"place": "m.py:3", "call": "Tensor.mul", "operand": "parameter layers.0.scale", "kind": "mixed operands",
         "dtype_in": "float16", "dtype_out": "float32"}  # fmt: skip


def facts(values: dict[str, str]) -> FactSet:
    return FactSet(
        [Fact(name=FactName("promotion", "0", name), state=Known(value), how="test") for name, value in values.items()]
    )


def test_the_trace_names_it() -> None:
    """File, line, operation and the last part of the operand's name."""
    assert meeting(facts(SOUND), "0") == Meeting(file="m.py", line=3, operator="mul", name="scale")
    assert meeting(facts({**SOUND, "call": "aten::add_"}), "0").operator == "add"


@pytest.mark.parametrize(
    "fault",
    [{"operand": "a tensor made there"}, {"operand": ""}, {"kind": "autocast policy"}, {"call": "aten::softmax"},
     {"place": ""}, {"dtype_in": "float32"}, {"dtype_out": "float64"}],
)  # fmt: skip
def test_what_a_trace_does_not_name(fault: dict[str, str]) -> None:
    """No named operand, another kind of promotion, an operation without operands to cast."""
    with pytest.raises(Refused):
        meeting(facts({**SOUND, **fault}), "0")
