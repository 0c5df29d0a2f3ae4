"""`docker`: a plan as the lines of a Dockerfile, upon a plain Python image."""

from __future__ import annotations

from typing import IO

from attn_doctor.model.stack import StackAnswer
from attn_doctor.report.renderer import PLAN, Manner, Media, Page, Renderer
from attn_doctor.report.words import stack as words


def _plan(answer: StackAnswer, stream: IO[str], manner: Manner) -> None:
    """The first plan; without one, why there is none, as comments."""
    if not answer.plans:
        stream.writelines(f"# {line}\n" for line in words.no_plan(answer))
        return
    plan = answer.plans[0]
    stream.writelines(f"# {line}\n" for line in words.header(answer, plan))
    stream.write(f"FROM python:{answer.node.python}-slim\n")
    for line in words.commands(plan, uv=False):
        stream.write(f"RUN {line.replace('pip install', 'pip install --no-cache-dir', 1)}\n")


RENDERER = Renderer("docker", suffixes=(".dockerfile",), media=Media.PROGRAM, pages=(Page(PLAN, _plan),))
