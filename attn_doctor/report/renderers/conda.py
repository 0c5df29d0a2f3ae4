"""`conda`: a plan as an environment.yml: Python from conda, the rest by pip, which is where the wheels are."""

from __future__ import annotations

import json
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
    lines = ["name: stack", "channels: [conda-forge]", "dependencies:", f"  - python={answer.node.python}", "  - pip"]
    lines += ["  - pip:", *(f"    - --extra-index-url {one}" for one in words.indexes(plan))]
    lines += [f"    - {json.dumps(one)}" for one in words.pinned(plan)]
    stream.writelines(f"{line}\n" for line in lines)


RENDERER = Renderer("conda", suffixes=(".yml", ".yaml"), media=Media.PROGRAM, pages=(Page(PLAN, _plan),))
