"""What an exchange would break beyond the findings: requirements of everything installed, and imports of what depends
on what changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from attn_doctor.fix.packages.installed import Installed, dependants, every_installed
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.outcomes import Outcome
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.probe.live.imports_and_torch import Examination
from attn_doctor.probe.live.kept_process import KeptProcess

#: Most modules that are imported to see whether they still can be.
_MOST = 30


def unmet_requirements(there: Iterable[Installed], markers: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(package, the one it needs) -> text, for each requirement that no installed version meets; as `pip check` does.

    Requirements of extras do not count, nor those that cannot be read.
    """
    every = tuple(there)
    versions = {one.name: one.version for one in reversed(every)}
    found: dict[tuple[str, str], str] = {}
    for one in every:
        for text in one.needs:
            try:
                need = Requirement(text)
                if need.marker is not None and not need.marker.evaluate({**markers, "extra": ""}):
                    continue
            except (InvalidRequirement, KeyError, ValueError):
                continue
            name = canonical_name(need.name)
            version = versions.get(name)
            if version is None:
                found[one.name, name] = f"{one.name} {one.version} needs {need.name}, which is not installed"
            elif need.specifier and not need.specifier.contains(version, prereleases=True):
                found[one.name, name] = (
                    f"{one.name} {one.version} needs {need.name}{need.specifier}, and there would be {version}"
                )
    return found


def newly_unmet(target: Target, tried: Target) -> tuple[str, ...]:
    """Requirements of the whole environment that are met today and would not be met."""
    markers = {key: str(value) for key, value in (target.told.get("markers") or {}).items()}
    before = unmet_requirements(every_installed(map(str, target.search_path)), markers)
    after = unmet_requirements(every_installed(map(str, tried.search_path)), markers)
    return tuple(words for both, words in after.items() if both not in before)


def broken_imports(
    target: Target, tried: Target, changed: frozenset[str], kept: KeptProcess | None, *, timeout: float, folder: Path
) -> tuple[str, ...]:
    """Modules of packages that need a changed one, and that can be imported today and could not be. `kept`: a process
    that goes on with the environment as it would be.
    """
    every = every_installed(map(str, target.search_path))
    modules = {module: one for one in dependants(every, changed) for module in one.modules()}
    asked = tuple(modules)[:_MOST]
    if not asked:
        return ()
    fails = _failing(tried, asked, kept, timeout, folder / "imports-tried")
    if not fails:
        return ()
    today = _failing(target, tuple(fails), None, timeout, folder / "imports-today")
    return tuple(
        f"{modules[module].name} could not be imported any more: {error}"
        for module, error in fails.items()
        if module not in today
    )


def _failing(
    target: Target, modules: tuple[str, ...], kept: KeptProcess | None, timeout: float, folder: Path
) -> dict[str, str]:
    folder.mkdir()
    examination = Examination(
        target,
        modules=modules,
        torch=False,
        timeout=timeout,
        simulated_gpu=None,
        folder=folder,
        samples=False,
        kept=kept,
    )
    answers = examination.answers()
    found = {}
    for module in modules:
        answer = read_answer(answers / f"import-{module}.json") or {}
        if answer.get("outcome") in (Outcome.FAILED, Outcome.CRASHED):
            found[module] = str(answer.get("error") or answer.get("signal_name") or answer["outcome"])
    return found
