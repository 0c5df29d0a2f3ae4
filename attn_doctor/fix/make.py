"""From a diagnosis to a plan. Reads files and asks the resolver through what it is handed; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.fix.actions import config, source
from attn_doctor.fix.allowed import check_file, project_of
from attn_doctor.fix.choose import Chosen, Policy, choose, left, subjects
from attn_doctor.fix.edits import file_edit, spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Fact, FactName, FactSet
from attn_doctor.model.findings import Action, Diagnosis, Finding, Safety
from attn_doctor.model.plans import Cured, Ground, Install, Left, Plan, Reversal, Splice, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What all chosen remedies together ask of the installer."""

    requirements: tuple[str, ...]
    no_deps: bool
    no_cache: bool
    reinstall: bool


#: Asks the installer what it would do. Raises Refused.
Resolve = Callable[[Wish], Install]


@dataclass(slots=True, kw_only=True)
class _Making:
    facts: FactSet
    configs: tuple[str, ...]
    projects: tuple[str, ...]
    prefix: str
    steps: list[Step] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    grounds: dict[FactName, Fact] = field(default_factory=dict)


def make(
    diagnosis: Diagnosis,
    facts: FactSet,
    recipes: Iterable[Recipe],
    policy: Policy,
    *,
    doctor_version: str,
    python: Path,
    prefix: Path,
    configs: tuple[Path, ...],
    resolve: Resolve,
    projects: tuple[Path, ...] = (),
) -> Plan:
    """The plan; equal diagnoses, facts, policies and answers of the resolver give equal plans."""
    chosen, stay = choose(diagnosis, facts, tuple(recipes), policy)
    named = tuple(os.path.realpath(one) for one in configs)
    of_configs = [str(project_of(Path(one))) for one in named]
    made = _Making(
        facts=facts,
        configs=named,
        projects=tuple(dict.fromkeys([*(os.path.realpath(one) for one in projects), *of_configs])),
        prefix=os.path.realpath(prefix),
        left=list(stay),
    )
    _set_configs(made, [one for one in chosen if _has(one, "set-config")])
    _edit_sources(made, [one for one in chosen if _has(one, "edit-source")])
    _install(made, [one for one in chosen if _has(one, "install-packages")], resolve)
    return Plan(
        doctor_version=doctor_version,
        python=str(python),
        prefix=made.prefix,
        configs=made.configs,
        projects=made.projects,
        steps=tuple(made.steps),
        left=tuple(made.left),
        grounds=tuple(Ground(name=str(name), state=fact.state) for name, fact in sorted(made.grounds.items())),
    )


def _has(chosen: Chosen, kind: str) -> bool:
    return any(action.kind == kind for action in chosen.remedy.actions)


def _actions(chosen: Chosen, kind: str) -> list[Action]:
    return [action for action in chosen.remedy.actions if action.kind == kind]


def _rest_on(made: _Making, finding: Finding) -> None:
    made.grounds.update({fact.name: fact for fact in finding.evidence})


def cured(chosen: Chosen, only: tuple[str, ...] | None = None) -> Cured:
    """What a step cures."""
    finding = chosen.finding
    return Cured(
        finding=finding.id,
        subjects=finding.subjects if only is None else only,
        severity=finding.severity.value,
        remedy=chosen.remedy.id,
        title=chosen.remedy.title,
        origin=finding.origin,
    )


def _set_configs(made: _Making, chosen: list[Chosen]) -> None:
    wanted: dict[str, dict[str, str]] = {}
    by: dict[str, list[Chosen]] = {}
    for one in chosen:
        for subject in subjects(one.finding) or ("",):
            file = os.path.realpath(subject) if subject else ""
            for action in _actions(one, "set-config"):
                arguments = dict(action.arguments)
                key, value = str(arguments["key"]), str(arguments["value"])
                if wanted.setdefault(file, {}).setdefault(key, value) != value:
                    made.left.append(left(one.finding, f"another cure wants {key} to be {wanted[file][key]}"))
                    break
            else:
                by.setdefault(file, []).append(one)
    for file, cures in by.items():
        try:
            path = check_file(file, configs=made.configs, roots=())
            edit = config.planned(file, path.read_bytes(), wanted[file])
            if edit is None:
                raise Refused("the file says so already; something else decides")
        except (Refused, OSError) as error:
            reason = f"{file}: {error.strerror if isinstance(error, OSError) else error}"
            made.left += [left(one.finding, reason) for one in cures]
            continue
        for one in cures:
            _rest_on(made, one.finding)
        made.steps.append(
            Step(
                change=edit,
                cures=tuple(cured(one, tuple(s for s in one.finding.subjects if _names(s, file))) for one in cures),
                safety=_least_safe(cures),
                why_this_safety=_why(cures),
                reversal=Reversal.EXACT,
            )
        )


def _names(subject: str, file: str) -> bool:
    return os.path.realpath(subject.partition(" ")[2]) == file


def _edit_sources(made: _Making, chosen: list[Chosen]) -> None:
    """Several promotions that reach one call are cured by one edit of it."""
    edits: dict[str, dict[Splice, None]] = {}
    contents: dict[str, bytes] = {}
    by: dict[str, list[Chosen]] = {}
    for one in chosen:
        try:
            if any(
                dict(action.arguments).get("edit") != "cast-before-kernel" for action in _actions(one, "edit-source")
            ):
                raise Refused("this edit is not made by a program")
            for call in source.calls(made.facts, subjects(one.finding)):
                path = check_file(os.path.realpath(call.file), configs=(), roots=made.projects)
                if path.is_relative_to(made.prefix) or {"site-packages", "dist-packages"} & set(path.parts):
                    raise Refused(f"{path} is an installed file: a release of its package cures it, or a person")
                content = contents.setdefault(str(path), path.read_bytes())
                edits.setdefault(str(path), {}).update(dict.fromkeys(source.splices(content, call)))
                cures = by.setdefault(str(path), [])
                if one not in cures:
                    cures.append(one)
        except (Refused, OSError) as error:
            made.left.append(left(one.finding, str(error)))
    for file, cures in by.items():
        try:
            splices = tuple(sorted(edits[file], key=lambda splice: splice.start))
            source.check(spliced(contents[file], splices), file)
            edit = file_edit(file, contents[file], splices)
        except Refused as error:
            made.left += [left(one.finding, str(error)) for one in cures]
            continue
        for one in cures:
            _rest_on(made, one.finding)
        made.steps.append(
            Step(
                change=edit,
                cures=tuple(cured(one) for one in cures),
                safety=_least_safe(cures),
                why_this_safety=_why(cures),
                reversal=Reversal.EXACT,
            )
        )


def _install(made: _Making, chosen: list[Chosen], resolve: Resolve) -> None:
    if not chosen:
        return
    actions = [dict(action.arguments) for one in chosen for action in _actions(one, "install-packages")]
    requirements: list[str] = []
    for arguments in actions:
        asked = arguments["requirements"]
        requirements += asked if isinstance(asked, tuple) else (str(asked),)
    wish = Wish(
        requirements=tuple(dict.fromkeys(requirements)),
        no_deps=all(bool(arguments.get("no_deps")) for arguments in actions),
        no_cache=any(bool(arguments.get("no_cache")) for arguments in actions),
        reinstall=any(bool(arguments.get("reinstall")) for arguments in actions),
    )
    try:
        install = resolve(wish)
    except Refused as error:
        made.left += [left(one.finding, str(error)) for one in chosen]
        return
    for one in chosen:
        _rest_on(made, one.finding)
    for change in install.changes:
        fact = made.facts.fact(FactName("package", change.name, "version"))
        if fact.name in made.facts:
            made.grounds[fact.name] = fact
    made.steps.append(
        Step(
            change=install,
            cures=tuple(cured(one) for one in chosen),
            safety=_least_safe(chosen),
            why_this_safety=_why(chosen),
            reversal=Reversal.EXACT if install.stash else Reversal.BEST_EFFORT,
            why_this_reversal="" if install.stash else "--no-stash: the old releases would have to be installed again",
        )
    )


def _least_safe(chosen: list[Chosen]) -> Safety:
    return max((one.remedy.safety for one in chosen), key=list(Safety).index)


def _why(chosen: list[Chosen]) -> str:
    return " ".join(dict.fromkeys(one.remedy.why_this_safety for one in chosen if one.remedy.why_this_safety))
