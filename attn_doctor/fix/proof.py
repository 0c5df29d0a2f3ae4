"""What an exchange would break beyond the findings: requirements of everything installed, and imports of what depends
on what changes.
"""

from __future__ import annotations

from pathlib import Path

from attn_doctor.fix.packages.installed import dependants, every_installed
from attn_doctor.fix.packages.ownership import newly_unmet
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.outcomes import Outcome
from attn_doctor.probe.live.imports_and_torch import Examination
from attn_doctor.probe.live.kept_process import KeptProcess

#: Most modules that are imported to see whether they still can be.
_MOST = 30


def broken_requirements(target: Target, tried: Target) -> tuple[str, ...]:
    """Requirements of the whole environment that are met today and would not be met."""
    markers = {key: str(value) for key, value in (target.told.get("markers") or {}).items()}
    before, after = (every_installed(map(str, one.search_path)) for one in (target, tried))
    return newly_unmet(before, after, markers)


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
