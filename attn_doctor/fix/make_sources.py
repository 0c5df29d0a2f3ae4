"""The part of a plan that edits sources: casts in the current project, keywords of installed packages."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attn_doctor.fix.actions import keyword, mask, operand, source
from attn_doctor.fix.allowed import check_file
from attn_doctor.fix.choose import Chosen, left, subjects
from attn_doctor.fix.edits import file_edit, spliced
from attn_doctor.fix.making import Making, actions, cured
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import Splice

_Splicing = Callable[[bytes], tuple[Splice, ...]]


def edit_sources(made: Making, chosen: list[Chosen]) -> None:
    """Several promotions that reach one call are cured by one edit of it."""
    casts = _Casts(made)
    for one in chosen:
        kinds = [dict(action.arguments).get("edit") for action in actions(one, "edit-source")]
        try:
            if kinds == ["set-keyword"]:
                _set_keyword(made, one)
            elif kinds == ["cast-before-kernel"]:
                for call in source.calls(made.facts, subjects(one.finding)):
                    casts.add(one, call.file, partial(source.splices, call=call))
            elif kinds == ["cast-mask"]:
                for subject in subjects(one.finding):
                    call = mask.call(made.facts, subject)
                    casts.add(one, call.file, partial(mask.splices, at=call))
                    casts.warn(call.file, (mask.WARNING,))
            elif kinds == ["cast-operand"]:
                for subject in subjects(one.finding):
                    at = operand.meeting(made.facts, subject)
                    casts.add(one, at.file, partial(operand.splices, at=at))
                    casts.warn(at.file, operand.warnings(at))
            else:
                raise Refused("this edit is not made by a program")
        except (Refused, OSError) as error:
            casts.forget(one)
            made.left.append(left(one.finding, str(error)))
    casts.plan()


def _set_keyword(made: Making, chosen: Chosen) -> None:
    (action,) = actions(chosen, "edit-source")
    wanted = keyword.patch(dict(action.arguments))
    edits = keyword.planned(wanted, made.facts, finding=chosen.finding.id, prefix=made.prefix, project=made.here)
    for edit in edits:
        check_file(edit.file, configs=(), roots=(made.here,) if made.here else (), prefix=made.prefix)
    if made.sealed and Path(edits[0].file).is_relative_to(made.prefix):
        raise Refused("the environment belongs to the system's package manager (EXTERNALLY-MANAGED)")
    if not Path(edits[0].file).is_relative_to(made.prefix) and made.here not in made.projects:
        made.projects = (*made.projects, made.here)
    for edit in edits:
        made.add(edit, [chosen], (cured(chosen),))


class _Casts:
    """Casts, file by file."""

    def __init__(self, made: Making) -> None:
        self.made = made
        self.contents: dict[str, bytes] = {}
        self.warnings: dict[str, dict[str, None]] = {}
        self.by: dict[str, list[tuple[Chosen, tuple[Splice, ...]]]] = {}
        """Of each file, what each cure changes in it."""

    def add(self, one: Chosen, file: str, splicing: _Splicing) -> None:
        """Raises Refused, OSError."""
        real = Path(os.path.realpath(file))
        if real.is_relative_to(self.made.prefix) or {"site-packages", "dist-packages"} & set(real.parts):
            raise Refused(f"{real} is an installed file: a release of its package cures it, or a person")
        path = check_file(str(real), configs=(), roots=self.made.projects)
        content = self.contents.setdefault(str(path), path.read_bytes())
        self.by.setdefault(str(path), []).append((one, splicing(content)))

    def warn(self, file: str, warnings: tuple[str, ...]) -> None:
        """For the step that edits this file."""
        self.warnings.setdefault(os.path.realpath(file), {}).update(dict.fromkeys(warnings))

    def forget(self, one: Chosen) -> None:
        """A finding of which one place cannot be mended is no step's."""
        left_over = {file: [cure for cure in cures if cure[0] != one] for file, cures in self.by.items()}
        self.by = {file: cures for file, cures in left_over.items() if cures}

    def plan(self) -> None:
        """Makes the steps."""
        for file, edits in self.by.items():
            cures = [one for number, (one, _) in enumerate(edits) if one not in [cure for cure, _ in edits[:number]]]
            try:
                every = dict.fromkeys(splice for _, splices in edits for splice in splices)
                splices = tuple(sorted(every, key=lambda splice: splice.start))
                source.check(spliced(self.contents[file], splices), file)
                edit = file_edit(file, self.contents[file], splices, warnings=tuple(self.warnings.get(file, ())))
            except Refused as error:
                self.made.left += [left(one.finding, str(error)) for one in cures]
                continue
            self.made.add(edit, cures, tuple(cured(one) for one in cures))
