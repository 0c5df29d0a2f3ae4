"""Casting at the kernel call: places from the parser, and what is left to people."""

from __future__ import annotations

import pytest

from attn_doctor.fix.edits.source import Call, check, splices
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused

MIXED = (("q", "float32"), ("k", "float32"), ("v", "float16"))


def edited(
    source: str, *, line: int = 1, name: str = "flash_attn_func", dtypes: tuple[tuple[str, str], ...] = MIXED
) -> str:
    content = source.encode()
    after = spliced(content, splices(content, Call(file="m.py", line=line, name=name, dtypes=dtypes)))
    check(after, "m.py")
    return after.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = flash_attn_func(q, k, v)", "y = flash_attn_func(q.to(v.dtype), k.to(v.dtype), v)"),
        ("y = fa.flash_attn_func(q=q, v=v, k=k)", "y = fa.flash_attn_func(q=q.to(v.dtype), v=v, k=k.to(v.dtype))"),
        (
            "y = flash_attn_func(q * 2, f(k), self.v)",
            "y = flash_attn_func((q * 2).to(self.v.dtype), f(k).to(self.v.dtype), self.v)",
        ),
        (
            "é = flash_attn_func(q, k, v)  # é q, k, v\r\n",
            "é = flash_attn_func(q.to(v.dtype), k.to(v.dtype), v)  # é q, k, v\r\n",
        ),
        ("\ufeffy = flash_attn_func(q, k, v)", "\ufeffy = flash_attn_func(q.to(v.dtype), k.to(v.dtype), v)"),
        (
            "y = flash_attn_func(\n    q,  # the query\n    k, v)",
            "y = flash_attn_func(\n    q.to(v.dtype),  # the query\n    k.to(v.dtype), v)",
        ),
    ],
)
def test_the_wide_operands_are_cast(before: str, after: str) -> None:
    """To the dtype of a half one, at the call, and nothing else changes."""
    assert edited(before) == after


def test_only_the_one_that_is_wide() -> None:
    """A key that was promoted alone is cast alone."""
    dtypes = (("q", "bfloat16"), ("k", "float32"), ("v", "bfloat16"))

    assert edited("flash_attn_func(q, k, v)", dtypes=dtypes) == "flash_attn_func(q, k.to(v.dtype), v)"


@pytest.mark.parametrize(
    ("source", "dtypes"),
    [
        ("flash_attn_func(q, k, v)", (("q", "float32"), ("k", "float32"), ("v", "float32"))),
        ("flash_attn_func(q, k, v)", (("q", "float32"), ("k", "float16"), ("v", "bfloat16"))),
        ("flash_attn_func(*qkv)", MIXED),
        ("flash_attn_func(q, k, f(x))", MIXED),
        ("flash_attn_func(q, k, v); flash_attn_func(q, k, v)", MIXED),
        ("other(q, k, v)", MIXED),
        ("def broken(:", MIXED),
        ("flash_attn_func(q, k, v)\rx = 1", MIXED),
    ],
)
def test_what_a_program_cannot_know_is_left(source: str, dtypes: tuple[tuple[str, str], ...]) -> None:
    """Everything wide, two half types, unpacked or computed operands, two calls on a line."""
    with pytest.raises(Refused):
        edited(source, dtypes=dtypes)
