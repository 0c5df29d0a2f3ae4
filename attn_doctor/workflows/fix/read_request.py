"""A request with its names looked up and its files read, before anything is examined."""

from __future__ import annotations

import secrets
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.formats import plan_v1
from attn_doctor.machine.files import check_output, read_input
from attn_doctor.model.plans import Plan
from attn_doctor.planning.choose import Policy
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import NamedGpu, named_gpu
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.workflows.fix.request import FixRequest
from attn_doctor.workflows.subject import refuse_unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request with names looked up and the plan read; nothing was examined yet."""

    request: FixRequest
    recipes: tuple[Recipe, ...]
    """The recipes to evaluate."""
    policy: Policy
    gpu: NamedGpu | None
    saved: Plan | None
    """The plan to carry out instead of a new one."""
    mark: str = ""
    """The mark of the processes that are started for it (machine/survivors.py)."""


def read_request(request: FixRequest) -> ReadRequest:
    """Reads the request's files. Raises BadInput for all faults that can be found without the target."""
    every = shelf.shelf(request.recipes)
    recipes = shelf.Selection(skip=request.skip).pick(every)
    only = tuple(one.id for one in shelf.Selection(only=request.only).pick(every)) if request.only else ()
    words = {*request.only, *(finding for finding, _ in request.remedies)}
    refuse_unreadable(request.assumptions)
    if request.save_plan is not None:
        check_output(request.save_plan, flag="--save-plan")
    gpu = named_gpu(request.gpu) if request.gpu is not None else None
    if request.kernels is not None and request.trace is not None:
        raise BadInput(
            "a traced run or the kernels, not both", about="--trace --kernels", hint="Leave out one of them."
        )
    return ReadRequest(
        request=request,
        recipes=recipes,
        policy=Policy(
            unsafe=request.unsafe,
            only=only,
            # Named themselves, not through their library.
            named=tuple(one.id for one in recipes if words & {one.id, *one.aliases}),
            remedies=request.remedies,
        ),
        gpu=gpu,
        saved=None if request.plan_file is None else _saved_plan(request.plan_file),
        mark=secrets.token_hex(8),
    )


def _saved_plan(file: Path) -> Plan:
    try:
        text = read_input(file, most=64 << 20).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(f"the plan cannot be read: {said}", about=f"--plan {file}") from None
    return plan_v1.loads(text, about=f"--plan {file}")
