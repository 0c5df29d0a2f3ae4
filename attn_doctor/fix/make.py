"""From a diagnosis to a plan. Reads files and asks the resolver through what it is handed; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.fix.actions import config
from attn_doctor.fix.allowed import check_file, project_of
from attn_doctor.fix.choose import Chosen, Policy, choose, left, subjects
from attn_doctor.fix.make_environment import set_environment
from attn_doctor.fix.make_sources import edit_sources
from attn_doctor.fix.making import Making, cured, has, least_safe, why
from attn_doctor.fix.making import actions as actions_of
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import Ground, Install, Plan, Reversal, Step
from attn_doctor.probe.config_files import place_of

#: Asks the installer what it would do. Raises Refused.
Resolve = Callable[[InstallRequest], Install]


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
    here: Path | None = None,
    sealed: bool = False,
) -> Plan:
    """The plan; `here` is the current project; a `sealed` environment belongs to the system's package manager.

    Equal diagnoses, facts, policies and answers of the resolver give equal plans.
    """
    chosen, stay = choose(diagnosis, facts, tuple(recipes), policy)
    named = tuple(os.path.realpath(one) for one in configs)
    of_configs = [str(project_of(Path(one))) for one in named]
    made = Making(
        facts=facts,
        configs=named,
        projects=tuple(dict.fromkeys([*(os.path.realpath(one) for one in projects), *of_configs])),
        prefix=os.path.realpath(prefix),
        here=os.path.realpath(here) if here is not None else "",
        sealed=sealed,
        left=list(stay),
    )
    _set_configs(made, [one for one in chosen if has(one, "set-config")])
    edit_sources(made, [one for one in chosen if has(one, "edit-source")])
    set_environment(made, [one for one in chosen if has(one, "set-environment")])
    _install(made, [one for one in chosen if has(one, "install-packages") or has(one, "install-wheel")], resolve)
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


def _set_configs(made: Making, chosen: list[Chosen]) -> None:
    wanted: dict[str, dict[int | None, dict[str, str]]] = {}
    by: dict[str, list[Chosen]] = {}
    for one in chosen:
        settings = [dict(action.arguments) for action in actions_of(one, "set-config")]
        keys = {str(each["key"]): str(each["value"]) for each in settings}
        for subject in subjects(one.finding) or ("",):
            name, line = place_of(subject)
            file = os.path.realpath(name) if name else ""
            there = wanted.setdefault(file, {}).setdefault(line, {})
            # All of its keys or none: half of a cure is none.
            clash = next((key for key, value in keys.items() if there.get(key, value) != value), None)
            if clash is not None:
                made.left.append(left(one.finding, f"another cure wants {clash} to be {there[clash]}"))
                continue
            there.update(keys)
            by.setdefault(file, [])
            if one not in by[file]:
                by[file].append(one)
    for file, cures in by.items():
        try:
            path = check_file(file, configs=made.configs, roots=())
            _check_cache(path)
            edit = config.planned(file, path.read_bytes(), {}, wanted[file])
            if edit is None:
                raise Refused("the file says so already; something else decides")
        except (Refused, OSError) as error:
            reason = f"{file}: {error.strerror if isinstance(error, OSError) else error}"
            made.left += [left(one.finding, reason) for one in cures]
            continue
        named = tuple(cured(one, tuple(s for s in one.finding.subjects if _names(s, file))) for one in cures)
        made.add(edit, cures, named)


def _check_cache(path: Path) -> None:
    """A blob of the Hugging Face cache is named by its content, and every snapshot links to it."""
    if path.parent.name == "blobs" and (path.parent.parent / "snapshots").is_dir():
        raise Refused("it is in the Hugging Face cache: save the model in a folder of yours, and edit it there")


def _names(subject: str, file: str) -> bool:
    return os.path.realpath(place_of(subject.partition(" ")[2])[0]) == file


def _install(made: Making, chosen: list[Chosen], resolve: Resolve) -> None:
    if not chosen:
        return
    try:
        install = resolve(_request(chosen))
    except Refused as error:
        # It is one call for all: a cure that cannot be had must not keep the others from being.
        refused = _refused_alone(chosen, resolve) if len(chosen) > 1 else {}
        for number, one in enumerate(chosen):
            if number in refused or not refused:
                made.left.append(left(one.finding, refused.get(number, str(error))))
        if refused:
            _install(made, [one for number, one in enumerate(chosen) if number not in refused], resolve)
        return
    notes = dict.fromkeys(note for one in chosen for note in one.notes)
    install = replace(install, warnings=(*notes, *install.warnings))
    for one in chosen:
        made.rest_on(one.finding)
    for change in install.changes:
        fact = made.facts.fact(FactName("package", change.name, "version"))
        if fact.name in made.facts:
            made.grounds[fact.name] = fact
    made.steps.append(
        Step(
            change=install,
            cures=tuple(cured(one) for one in chosen),
            safety=least_safe(chosen),
            why_this_safety=why(chosen),
            reversal=Reversal.EXACT if install.stash else Reversal.BEST_EFFORT,
            why_this_reversal=""
            if install.stash
            else "--no-stash: undo asks the installer for the old releases again, which needs them to be had then",
        )
    )


def _refused_alone(chosen: list[Chosen], resolve: Resolve) -> dict[int, str]:
    """Why not, for each of the cures that cannot be had by itself either."""
    refused = {}
    for number, one in enumerate(chosen):
        try:
            resolve(_request([one]))
        except Refused as error:
            refused[number] = str(error)
    return refused


def _request(chosen: list[Chosen]) -> InstallRequest:
    plain: list[str] = []
    builds: list[str] = []
    actions = [dict(action.arguments) for one in chosen for action in actions_of(one, "install-packages")]
    for arguments in actions:
        asked = arguments["requirements"]
        texts = asked if isinstance(asked, tuple) else (str(asked),)
        (builds if arguments.get("no_build_isolation") else plain).extend(texts)
    resolved = [one for one in actions if not one.get("no_build_isolation")]
    wheels = [str(dict(action.arguments)["package"]) for one in chosen for action in actions_of(one, "install-wheel")]
    return InstallRequest(
        requirements=tuple(dict.fromkeys(plain)),
        no_deps=all(bool(arguments.get("no_deps")) for arguments in resolved),
        no_cache=any(bool(arguments.get("no_cache")) for arguments in actions),
        reinstall=any(bool(arguments.get("force_reinstall")) for arguments in actions),
        builds=tuple(dict.fromkeys(builds)),
        wheels=tuple(dict.fromkeys(wheels)),
        torch_backend=next((str(one["torch_backend"]) for one in actions if one.get("torch_backend")), ""),
    )
