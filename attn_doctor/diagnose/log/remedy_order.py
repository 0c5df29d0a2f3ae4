"""Puts last the remedies that are of no use for what the log tells: those that ask for what was done or is there
already, and those that install a published wheel, or a torch, where none is published for this Python.

Only for logs: on a node, `fix` says why no wheel fits before it plans what comes next.
"""

from __future__ import annotations

from collections.abc import Collection

from attn_doctor.diagnose.log.done import settings_done, settings_named
from attn_doctor.diagnose.log.there_already import IN_THE_PYTHON_THAT_RUNS, changes_nothing, why_in_vain
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Finding, Remedy, Safety
from attn_doctor.model.libraries import published
from attn_doctor.model.remedies import Advise, InstallWheel
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.torch_pythons import has_wheels_for
from attn_doctor.recipes.data.wheels import NotTold, NoWheel, fitting, has_none_for, node_of

_PYTHON = FactName.parse("python.version")
#: A clause of this kind speaks of what has to go: its switch being there says that it was not done.
_TAKES_AWAY = when_used(
    r"\b(?:[Ww]ithout|[Uu]nset|[Rr]emove|[Dd]rop|[Ll]eave|[Uu]ninstall|[Nn]o longer|[Nn]ot|out|off|back)\b"
)
_CLAUSE = when_used(r"[.;:,] |[()]|\bin place of\b.*")
#: What a command of Python only prints, and the fact that says it.
_PRINTED = {
    "torch.__version__": "torch.version",
    "torch.version.cuda": "torch.cuda",
    "torch.version.hip": "torch.hip",
    "torch.cuda.get_device_capability()": "gpu.0.compute_capability",
    "sys.version": "python.version",
}
_PINNED = when_used(r"\btorch==(\d+(?:\.\d+)+)")
#: The Python of the log is none of a new environment's.
_ANOTHER_PYTHON = when_used(r"\bconda create\b|\buv venv\b| -m venv\b")
_PRINTS = when_used(r" -c [\"']import (?:torch|sys)(?:, ?(?:torch|sys))*; ?print\((?P<what>[^\n]*)\)[\"']$")


def useful_first(finding: Finding, facts: FactSet) -> list[Remedy]:
    """The finding's remedies in their order, last those that were done already and those whose wheel does not exist."""
    done = settings_done(facts)
    missing = any(one.id == IN_THE_PYTHON_THAT_RUNS for one in finding.remedies)
    named = all(facts.text(name) is not None for name in ("torch.version", "torch.cuda", "python.version"))
    ordered = sorted(
        finding.remedies,
        key=lambda one: (
            (bool(done) and _was_done(one, done, finding.library))
            or _only_prints_what_is_known(one, facts)
            or (not missing and changes_nothing(one, facts))
            or (named and _wants_a_wheel_that_is_not(one, facts))
            or _wants_a_torch_of_another_python(one, facts)
        ),
    )
    first = next((one for one in ordered if not finding.is_a_look(one)), None)
    look = None if first is None or missing else why_in_vain(first, facts)
    return ordered if look is None else [look, *ordered]


def _was_done(remedy: Remedy, done: Collection[object], library: str) -> bool:
    """True where the settings of its title, or else those of the first of its texts that names any, are made."""
    commands = (command for one in remedy.actions for command in one.commands)
    for text in (remedy.title, *(one.action.advice for one in remedy.actions), *commands):
        asked = [
            one for clause in _CLAUSE.split(text) if not _TAKES_AWAY.search(clause) for one in settings_named(clause)
        ]
        if attention := {one for one in asked if one.startswith("attention=")}:
            # Eager attention takes no kernel of a package either.
            of_package = any(one.name == library for one in published())
            return any(one in done for one in (attention | {"attention=eager"} if of_package else attention))
        if asked:
            # A call is one program's way beside switches of others.
            return any(one in done for one in asked if one.endswith("()")) or all(one in done for one in asked)
    return False


def _only_prints_what_is_known(remedy: Remedy, facts: FactSet) -> bool:
    """True for a look at what the log tells; beside a change such a command only helps to find the right file."""
    if remedy.safety is Safety.UNSAFE:
        return False
    commands = [command for one in remedy.actions for command in one.commands]
    for command in commands:
        found = _PRINTS.search(command)
        asked = [_PRINTED.get(one.strip()) for one in found["what"].split(",")] if found else [None]
        if not all(name is not None and facts.text(name) is not None for name in asked):
            return False
    return bool(commands)


def _wants_a_wheel_that_is_not(remedy: Remedy, facts: FactSet) -> bool:
    for action in (one.action for one in remedy.actions):
        if isinstance(action, InstallWheel) and "?" not in action.version:  # ? stands for an unknown fact
            try:
                fitting(action.package, node_of(facts), action.version)
            except NotTold:
                return has_none_for(action.package, facts, action.version) and not _is_built_as_well(remedy)
            except NoWheel:
                return True
    return False


def _is_built_as_well(remedy: Remedy) -> bool:
    """True where another of its actions builds the package from source, which needs no wheel."""
    return any(isinstance(one.action, Advise) and one.action.no_build_isolation for one in remedy.actions)


def _wants_a_torch_of_another_python(remedy: Remedy, facts: FactSet) -> bool:
    """True where it pins a torch that has no wheel for the log's Python: pip would take the old one off and stop."""
    python = facts.text(_PYTHON)
    commands = "\n".join(command for one in remedy.actions for command in one.commands)
    pinned = _PINNED.search(commands)
    if python is None or pinned is None or _ANOTHER_PYTHON.search(commands):
        return False
    return has_wheels_for(pinned[1], python) is False
