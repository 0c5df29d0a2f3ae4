"""`edit-source`: casts in the current project at places from a trace, and keywords at calls of installed packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.treatments import PlannedTreatment
from attn_doctor.model.remedies import EditSource

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder
    from attn_doctor.model.plans import Splice

    _Splicing = Callable[[bytes], tuple[Splice, ...]]


class _EditSource(PlannedTreatment[EditSource]):
    order = 20

    def described(self, action: EditSource) -> Sequence[str]:
        return (f"Edits the source (`{action.edit}`).",)

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        """Plans the edits; several promotions that reach one call are fixed by one edit."""
        casts = Casts(builder)
        for one in chosen:
            try:
                _plan_one(builder, casts, one)
            except (Refused, OSError) as error:
                casts.forget(one)
                builder.leave(one, str(error))
        casts.plan()


def _plan_one(builder: PlanBuilder, casts: Casts, chosen: Chosen) -> None:
    """Plans one finding. Raises Refused, OSError."""
    from attn_doctor.fix.edits import mask, operand, source
    from attn_doctor.fix.plan_builder import subjects

    edits = chosen.actions(EditSource)
    named = subjects(chosen.finding)
    match [one.edit for one in edits]:
        case ["set-keyword"]:
            _set_keyword(builder, chosen, edits[0])
        case ["cast-before-kernel"]:
            for call in source.calls(builder.facts, named):
                casts.add(chosen, call.file, partial(source.splices, call=call))
        case ["cast-mask"]:
            for subject in named:
                call = mask.call(builder.facts, subject)
                casts.add(chosen, call.file, partial(mask.splices, at=call))
                casts.warn(call.file, (mask.WARNING,))
        case ["cast-operand"]:
            for subject in named:
                at = operand.meeting(builder.facts, subject)
                casts.add(chosen, at.file, partial(operand.splices, at=at))
                casts.warn(at.file, operand.warnings(at))
        case _:
            raise Refused("this edit is not made by a program")


def _set_keyword(builder: PlanBuilder, chosen: Chosen, action: EditSource) -> None:
    """Plans one keyword edit. Raises Refused, OSError."""
    from attn_doctor.fix.allowed import check_file
    from attn_doctor.fix.edits import keyword
    from attn_doctor.fix.plan_builder import cured

    edits = keyword.planned(
        action, builder.facts, finding=chosen.finding.id, prefix=builder.prefix, project=builder.here
    )
    for edit in edits:
        check_file(edit.file, configs=(), roots=(builder.here,) if builder.here else (), prefix=builder.prefix)
    if builder.sealed and Path(edits[0].file).is_relative_to(builder.prefix):
        raise Refused("the environment belongs to the system's package manager (EXTERNALLY-MANAGED)")
    if not Path(edits[0].file).is_relative_to(builder.prefix) and builder.here not in builder.projects:
        builder.projects = (*builder.projects, builder.here)
    for edit in edits:
        builder.add(edit, [chosen], (cured(chosen),))


class Casts:
    """The casts, by file."""

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder = builder
        self.contents: dict[str, bytes] = {}
        self.warnings: dict[str, dict[str, None]] = {}
        self.by: dict[str, list[tuple[Chosen, tuple[Splice, ...]]]] = {}
        """File -> the splices of each finding."""

    def add(self, one: Chosen, file: str, splicing: _Splicing) -> None:
        """Adds the casts of one finding in this file. Raises Refused, OSError."""
        from attn_doctor.fix.allowed import check_file

        real = Path(os.path.realpath(file))
        if real.is_relative_to(self.builder.prefix) or {"site-packages", "dist-packages"} & set(real.parts):
            raise Refused(f"{real} is an installed file: it is fixed by another release of its package, or by a person")
        path = check_file(str(real), configs=(), roots=self.builder.projects)
        content = self.contents.setdefault(str(path), path.read_bytes())
        self.by.setdefault(str(path), []).append((one, splicing(content)))

    def warn(self, file: str, warnings: tuple[str, ...]) -> None:
        """Adds warnings to the step that edits this file."""
        self.warnings.setdefault(os.path.realpath(file), {}).update(dict.fromkeys(warnings))

    def forget(self, one: Chosen) -> None:
        """Removes a finding that cannot be fixed in all of its places."""
        left_over = {file: [cure for cure in cures if cure[0] != one] for file, cures in self.by.items()}
        self.by = {file: cures for file, cures in left_over.items() if cures}

    def plan(self) -> None:
        """Adds the steps to the plan."""
        from attn_doctor.fix.edits import source
        from attn_doctor.fix.edits.splices import file_edit, spliced
        from attn_doctor.fix.plan_builder import cured

        for file, edits in self.by.items():
            cures = [one for number, (one, _) in enumerate(edits) if one not in [cure for cure, _ in edits[:number]]]
            try:
                every = dict.fromkeys(splice for _, splices in edits for splice in splices)
                splices = tuple(sorted(every, key=lambda splice: splice.start))
                source.check(spliced(self.contents[file], splices), file)
                edit = file_edit(file, self.contents[file], splices, warnings=tuple(self.warnings.get(file, ())))
            except Refused as error:
                for one in cures:
                    self.builder.leave(one, str(error))
                continue
            self.builder.add(edit, cures, tuple(cured(one) for one in cures))


TREATMENT = _EditSource()
