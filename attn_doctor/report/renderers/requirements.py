"""`requirements`: a plan as a file for `pip install -r` or `uv pip install -r`."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.model.stack import StackAnswer, StackPlan
from attn_doctor.report.renderer import PLAN, Media, Page, Renderer
from attn_doctor.report.stack_file import stack_file
from attn_doctor.report.words import stack as words


def _requirements(_answer: StackAnswer, plan: StackPlan) -> Iterator[str]:
    yield from (f"--extra-index-url {one}" for one in words.indexes(plan))
    yield from words.pinned(plan)


RENDERER = Renderer(
    "requirements", suffixes=(".txt", ".in"), media=Media.PROGRAM, pages=(Page(PLAN, stack_file(_requirements)),)
)
