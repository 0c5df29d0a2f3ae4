"""`docker`: a plan as the lines of a Dockerfile, upon a plain Python image."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.model.stack import StackAnswer, StackPlan
from attn_doctor.report.renderer import PLAN, Media, Page, Renderer
from attn_doctor.report.stack_file import stack_file
from attn_doctor.report.words import stack as words


def _file(answer: StackAnswer, plan: StackPlan) -> Iterator[str]:
    yield f"FROM python:{answer.node.python}-slim"
    for line in words.commands(plan, uv=False):
        yield f"RUN {line.replace('pip install', 'pip install --no-cache-dir', 1)}"


RENDERER = Renderer("docker", suffixes=(".dockerfile",), media=Media.PROGRAM, pages=(Page(PLAN, stack_file(_file)),))
