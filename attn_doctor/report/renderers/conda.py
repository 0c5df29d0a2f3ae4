"""`conda`: a plan as an environment.yml: Python from conda, the rest by pip, which is where the wheels are."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attn_doctor.model.stack import StackAnswer, StackPlan
from attn_doctor.report.renderer import PLAN, Media, Page, Renderer
from attn_doctor.report.stack_file import stack_file
from attn_doctor.report.words import stack as words


def _environment(answer: StackAnswer, plan: StackPlan) -> Iterator[str]:
    yield from (
        "name: stack",
        "channels: [conda-forge]",
        "dependencies:",
        f"  - python={answer.node.python}",
        "  - pip",
    )
    yield "  - pip:"
    yield from (f"    - --extra-index-url {one}" for one in words.indexes(plan))
    yield from (f"    - {json.dumps(one)}" for one in words.pinned(plan))


RENDERER = Renderer(
    "conda", suffixes=(".yml", ".yaml"), media=Media.PROGRAM, pages=(Page(PLAN, stack_file(_environment)),)
)
