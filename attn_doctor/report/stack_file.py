"""A plan as a file of another tool: what every such file has around the lines of its own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from attn_doctor.model.stack import StackAnswer, StackPlan
from attn_doctor.report.renderer import Manner
from attn_doctor.report.words import stack as words


def stack_file(
    lines: Callable[[StackAnswer, StackPlan], Iterable[str]],
) -> Callable[[StackAnswer, IO[str], Manner], None]:
    """Writes the first plan in these lines; without one, why there is none, as comments."""

    def write(answer: StackAnswer, stream: IO[str], _manner: Manner) -> None:
        if not answer.plans:
            stream.writelines(f"# {line}\n" for line in words.no_plan(answer))
            return
        plan = answer.plans[0]
        stream.writelines(f"# {line}\n" for line in words.header(answer, plan))
        stream.writelines(f"{line}\n" for line in lines(answer, plan))

    return write
