"""`requirements`: a plan as a file for `pip install -r` or `uv pip install -r`."""

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
    words_ = [f"--extra-index-url {one}" for one in words.indexes(plan)]
    stream.writelines(f"{line}\n" for line in [*words_, *words.pinned(plan)])


RENDERER = Renderer("requirements", suffixes=(".txt", ".in"), media=Media.PROGRAM, pages=(Page(PLAN, _plan),))
