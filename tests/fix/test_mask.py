"""A float32 mask that is cast at the call of SDPA."""

from __future__ import annotations

import pytest

from attn_doctor.fix.edits import mask
from attn_doctor.fix.edits.source import Call
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import FactSet
from tests.diagnose.test_derived import facts

CAST = "(mask.to(q.dtype) if mask is not None and mask.is_floating_point() else mask)"


def edited(line: str, at: int = 3) -> str:
    content = f"def f(q, k, v, mask):\n    # ä\n    return {line}\n".encode()
    call = Call(file="m.py", line=at, name="scaled_dot_product_attention", dtypes=())
    return spliced(content, mask.splices(content, call)).decode().splitlines()[2].removeprefix("    return ")


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        (
            "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
            f"F.scaled_dot_product_attention(q, k, v, attn_mask={CAST})",
        ),
        ("scaled_dot_product_attention(q, k, v, mask)", f"scaled_dot_product_attention(q, k, v, {CAST})"),
        (
            "F.scaled_dot_product_attention(key=k, value=v, attn_mask=mask, query=q)",
            f"F.scaled_dot_product_attention(key=k, value=v, attn_mask={CAST}, query=q)",
        ),
        (
            "F.scaled_dot_product_attention(self.q, k, v, attn_mask=self.mask)",
            (
                "F.scaled_dot_product_attention(self.q, k, v, attn_mask=(self.mask.to(self.q.dtype) "
                "if self.mask is not None and self.mask.is_floating_point() else self.mask))"
            ),
        ),
    ],
)
def test_the_mask_is_cast(call: str, becomes: str) -> None:
    """By name or by place, with whatever the query is called; nothing else of the line changes."""
    assert edited(call) == becomes


@pytest.mark.parametrize(
    "call",
    [
        "F.scaled_dot_product_attention(q, k, v)",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=make(mask))",
        "F.scaled_dot_product_attention(make(q), k, v, attn_mask=mask)",
        "F.scaled_dot_product_attention(*qkv, attn_mask=mask)",
        "F.scaled_dot_product_attention(q, k, v, **more)",
        "[F.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask)]",
        "other(q, k, v, mask)",
    ],
)
def test_what_is_left_to_a_person(call: str) -> None:
    """Refused: an expression that would run twice, a missing mask, or two calls on the line."""
    with pytest.raises(Refused):
        edited(call)


def met(**more: str) -> FactSet:
    named = {"name": "scaled_dot_product_attention", "place": "m.py:3", "q_dtype": "bfloat16", "mask_dtype": "float32"}
    return facts(**{f"attention__0__{name}": value for name, value in {**named, **more}.items()})


def test_the_place_comes_from_the_trace() -> None:
    """File and line of the call that it saw."""
    at = mask.call(met(), "0")

    assert (at.file, at.line, at.name) == ("m.py", 3, "scaled_dot_product_attention")


@pytest.mark.parametrize(
    "more", [{"q_dtype": "float32"}, {"mask_dtype": "bool"}, {"name": "flash_attn_func"}, {"place": ""}]
)
def test_other_trouble_is_not_touched(more: dict[str, str]) -> None:
    """A mask that fits, a query that is wide itself, another kernel, no place."""
    with pytest.raises(Refused):
        mask.call(met(**more), "0")


@pytest.mark.process
def test_each_mask_keeps_its_meaning() -> None:
    """A float mask takes the query's dtype; a boolean one and none stay what they are."""
    torch = pytest.importorskip("torch")
    scope = {"q": torch.zeros(1, dtype=torch.bfloat16)}
    wide, boolean = torch.zeros(2), torch.tensor([True, False])

    assert eval(CAST, {**scope, "mask": wide}).dtype is torch.bfloat16
    assert eval(CAST, {**scope, "mask": boolean}) is boolean
    assert eval(CAST, {**scope, "mask": None}) is None
