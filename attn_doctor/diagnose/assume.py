"""Assumed facts (--assume, --gpu): replace probed facts and are marked as assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Value
from attn_doctor.model.kinds import PLURAL, kind_of
from attn_doctor.model.vocabulary import ValueType, close_names, term_of, value_fault
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.gpu_table import NamedGpu

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
    return FactSet(made_for_gpu(facts.without("gpu").values())).with_facts(
        [
            _assumed(FactName("listed", "", "gpu"), Known(1), how),
            *(
                _assumed(FactName("gpu", "0", name), Known(value), how)
                for name, value in values.items()
                if value is not None
            ),
        ]
    )


# Attributes of an observed call that depend on the named GPU: SDPA chooses its backend by it.
_BY_IT = frozenset({"backend", "backend_refused", "backend_warnings"})


def made_for_gpu(facts: Iterable[Fact]) -> Iterator[Fact]:
    """The facts; those that depend on a GPU named by the user are marked."""
    for fact in facts:
        decided = kind_of(fact.name.kind).made_for_gpu or (
            fact.name.kind == "attention" and fact.name.attribute in _BY_IT
        )
        yield replace(fact, supposed=True) if decided else fact


def supposed(derived: Iterable[Fact], facts: FactSet) -> Iterator[Fact]:
    """Derived facts; those computed from an assumption, directly or through another derived fact, are marked."""
    marked: set[FactName] = set()
    for fact in derived:
        if any(_is_supposed(facts, marked, source) for source in fact.computed_from):
            fact = replace(fact, supposed=True)
            marked.add(fact.name)
        yield fact


def _is_supposed(facts: FactSet, marked: set[FactName], source: str) -> bool:
    """For a plural name without a subject, or with `*`, considers every subject."""
    try:
        name = FactName.parse(source)
    except ValueError:
        return False  # plain text, not the name of a fact
    if name.kind in PLURAL and name.subject in ("", "*"):
        if any((one.kind, one.attribute) == (name.kind, name.attribute) for one in marked):
            return True
        return any(_is_assumed(facts, name.of(one)) for one in facts.subjects(name.kind))
    return name in marked or _is_assumed(facts, name)


def _is_assumed(facts: FactSet, name: FactName) -> bool:
    fact = facts.get(name)  # one that is not there rests on nothing
    return fact is not None and fact.rests_on_assumption


def assume(facts: FactSet, written: Iterable[str]) -> FactSet:
    """The facts with each `NAME=VALUE` replaced; an empty value means absent.

    A plural name without a subject applies to every subject, or creates a first one when there is none.
    Raises BadInput for an unknown name and for a value of the wrong type.
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


def _state(kind: ValueType, raw: str, about: str) -> State:
    if not raw:
        return Absent("assumed to be absent")
    value: Value
    if kind is ValueType.TEXTS:
        value = tuple(part.strip() for part in raw.split(","))
    elif kind is ValueType.YES_NO:
        words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
        if raw.lower() not in words:
            raise BadInput(f"{raw!r} is neither yes nor no", about=about, hint=_HINT)
        value = words[raw.lower()]
    elif kind in (ValueType.INTEGER, ValueType.NUMBER):
        try:
            value = int(raw) if kind is ValueType.INTEGER else float(raw)
        except ValueError:
            raise BadInput(f"{raw!r} is no number", about=about, hint=_HINT) from None
    else:
        value = raw
        if kind is ValueType.CAPABILITY and raw.startswith("sm_") and raw[3:].isdigit():
            value = f"{raw[3:-1]}.{raw[-1]}"
    fault = value_fault(kind, value)
    if fault:
        raise BadInput(f"{raw!r} does not fit: it {fault}", about=about, hint=_HINT)
    return Known(value)
