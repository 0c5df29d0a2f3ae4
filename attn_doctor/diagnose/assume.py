"""Judging as if: facts that a person puts in place of what was found, marked as assumed."""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.cookbook.gpus import NamedGpu
from attn_doctor.errors import BadInput
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Value
from attn_doctor.model.vocabulary import Kind, close_names, term_of, value_fault

_HINT = "Write --assume NAME=VALUE, for example --assume gpu.compute_capability=7.5 or --assume driver.version=525.60."


def assume_gpu(facts: FactSet, gpu: NamedGpu) -> FactSet:
    """The facts as if this GPU, and no other, were in the node."""
    how = f"--gpu {gpu.name}"
    values: dict[str, Value | None] = {
        "name": gpu.name,
        "compute_capability": gpu.compute_capability,
        "shared_memory_bytes": gpu.shared_memory_bytes,
        "memory_mib": gpu.memory_mib,
        "visible": True,
    }
    return facts.without("gpu").with_facts(
        [
            _assumed(FactName("listed", "", "gpu"), Known(1), how),
            *(
                _assumed(FactName("gpu", "0", name), Known(value), how)
                for name, value in values.items()
                if value is not None
            ),
        ]
    )


def assume(facts: FactSet, written: Iterable[str]) -> FactSet:
    """The facts with each `NAME=VALUE` in place; an empty value means that it is absent.

    A plural name without a subject speaks of every one there is, or of a first one where there is none.
    Raises BadInput for a name that is no fact and a value that is none of its kind.
    """
    for text in written:
        spelled, equals, raw = text.partition("=")
        about = f"--assume {text}"
        if not equals:
            raise BadInput("an assumption has no value", about=about, hint=_HINT)
        try:
            name = FactName.parse(spelled.strip())
        except ValueError:
            raise BadInput("that is no fact's name", about=about, hint=_HINT) from None
        term = term_of(name)
        if term is None:
            close = close_names(spelled)
            hint = f"Did you mean {' or '.join(close)}? " if close else ""
            raise BadInput(
                f"there is no fact {spelled.strip()!r}",
                about=about,
                hint=hint + "`attn-doctor recipes facts` prints every fact there is.",
            )
        state = _state(term.kind, raw.strip(), about)
        subjects = (facts.subjects(name.kind) or ("0",)) if name.each else (name.subject,)
        for subject in subjects:
            facts = facts.with_facts([_assumed(name.of(subject), state, about)])
            listed = FactName("listed", "", name.kind)
            if subject and facts.value(listed) in (None, 0):
                facts = facts.with_facts([_assumed(listed, Known(1), about)])
    return facts


def _assumed(name: FactName, state: State, how: str) -> Fact:
    return Fact(name=name, state=state, how=how, origin=Origin.ASSUMED)


def _state(kind: Kind, raw: str, about: str) -> State:
    if not raw:
        return Absent("assumed to be absent")
    value: Value
    if kind is Kind.TEXTS:
        value = tuple(part.strip() for part in raw.split(","))
    elif kind is Kind.YES_NO:
        words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
        if raw.lower() not in words:
            raise BadInput(f"{raw!r} is neither yes nor no", about=about, hint=_HINT)
        value = words[raw.lower()]
    elif kind in (Kind.INTEGER, Kind.NUMBER):
        try:
            value = int(raw) if kind is Kind.INTEGER else float(raw)
        except ValueError:
            raise BadInput(f"{raw!r} is no number", about=about, hint=_HINT) from None
    else:
        value = raw
        if kind is Kind.CAPABILITY and raw.startswith("sm_") and raw[3:].isdigit():
            value = f"{raw[3:-1]}.{raw[-1]}"
    fault = value_fault(kind, value)
    if fault:
        raise BadInput(f"{raw!r} does not fit: it {fault}", about=about, hint=_HINT)
    return Known(value)
