"""hypothesis strategies for facts, recipes' questions and reports; shared by the laws."""

from __future__ import annotations

from hypothesis import strategies as st

from attn_doctor.model import fingerprint
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, Unknown
from attn_doctor.model.findings import (
    Acceptance,
    Diagnosis,
    Finding,
    Location,
    OpenQuestion,
    Remedy,
    Safety,
    Severity,
)
from attn_doctor.model.full_verdict import FullFinding, FullVerdict
from attn_doctor.model.identity import Cohort, EnvironmentName, Identity, NodeName
from attn_doctor.model.remedies import KINDS, ProposedAction
from attn_doctor.model.report import Examined, Failure, LogRead, Near, Report
from attn_doctor.recipes.recipe import Affected, AnyOf, AtLeast, Below, Matches, OneOf, Present

VERSIONS = (
    "2.5.1",
    "2.6.0",
    "2.6.0a0+ecf3bae40a.nv25.1",
    "2.6.0.dev20250101",
    "2.6.0+cu124",
    "2.7.0rc1",
    "3.4.0",
    "3.7.1",
)
BOUNDS = ("2.6.0", "2.7.0", "3.4.0", "3.7.1")
CAPABILITIES = ("7.5", "8.0", "8.9", "9.0", "10.0", "12.1")

TRITON = FactName.parse("package.triton.version")
CAPABILITY = FactName.parse("gpu.0.compute_capability")
SYMBOLS = FactName.parse("extension.x.missing_symbols")
OUTCOME = FactName.parse("import.fla.outcome")
NAMES = (TRITON, CAPABILITY, SYMBOLS, OUTCOME)

_VALUES = {
    TRITON: st.sampled_from(VERSIONS),
    CAPABILITY: st.sampled_from(CAPABILITIES),
    SYMBOLS: st.lists(st.sampled_from(("_ZN3c10", "nccl")), max_size=2).map(tuple),
    OUTCOME: st.sampled_from(("imported", "failed", "crashed", "hung")),
}


def settled_state(name: FactName) -> st.SearchStrategy[Known | Absent]:
    return st.one_of(_VALUES[name].map(Known), st.just(Absent("no")))


def state(name: FactName) -> st.SearchStrategy[Known | Absent | Unknown]:
    return st.one_of(settled_state(name), st.just(Unknown("could not look")))


@st.composite
def factsets(draw: st.DrawFn) -> FactSet:
    return FactSet(Fact(name=name, state=draw(state(name)), how="drawn") for name in NAMES)


questions = st.one_of(
    st.builds(Present, fact=st.sampled_from(NAMES), present=st.booleans()),
    st.builds(
        Affected,
        fact=st.just(TRITON),
        introduced=st.one_of(st.none(), st.sampled_from(BOUNDS[:2])),
        fixed=st.one_of(st.none(), st.sampled_from(BOUNDS[2:])),
    ),
    st.builds(OneOf, fact=st.just(OUTCOME), values=st.just(("crashed", "hung"))),
    st.builds(Below, fact=st.just(CAPABILITY), bound=st.sampled_from(CAPABILITIES)),
    st.builds(AtLeast, fact=st.just(CAPABILITY), bound=st.sampled_from(CAPABILITIES)),
    st.builds(AtLeast, fact=st.just(TRITON), bound=st.sampled_from(BOUNDS)),
    st.builds(Matches, fact=st.just(SYMBOLS), pattern=st.sampled_from(("c10", "^nccl"))),
)
conditions = st.lists(
    st.one_of(
        questions, st.lists(questions, min_size=2, max_size=3).map(lambda several: AnyOf(questions=tuple(several)))
    ),
    min_size=1,
    max_size=4,
).map(tuple)

_words = st.text(max_size=12)
_scalars = st.one_of(
    st.text(max_size=8), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False)
)
_states = st.one_of(
    st.one_of(_scalars, st.lists(st.text(max_size=5), max_size=3).map(tuple)).map(Known),
    st.builds(Absent, _words),
    st.builds(Unknown, _words, asked=st.booleans()),
)
_names = st.sampled_from(
    [
        FactName.parse(text)
        for text in (
            "driver.version",
            "gpu.0.name",
            "gpu.1.name",
            "env.LD_LIBRARY_PATH",
            "extension.xformers._C.path",
            "package.zope.interface.version",
        )
    ]
)
facts = st.builds(Fact, name=_names, state=_states, how=_words, origin=st.sampled_from(Origin))
actions = st.one_of([st.from_type(kind) for kind in KINDS.values()])
_remedies = st.builds(
    Remedy,
    id=_words,
    title=_words,
    safety=st.sampled_from(Safety),
    why_this_safety=_words,
    actions=st.lists(
        st.builds(ProposedAction, action=actions, commands=st.lists(_words, max_size=2).map(tuple)),
        max_size=2,
    ).map(tuple),
)


def _findings(symptoms: st.SearchStrategy[tuple[Finding, ...]]) -> st.SearchStrategy[Finding]:
    texts = st.lists(_words, max_size=2).map(tuple)
    return st.builds(
        Finding,
        id=st.just("a-trouble"),
        severity=st.sampled_from(Severity),
        title=_words,
        what=_words,
        why=_words,
        certainty=st.sampled_from(("seen", "inferred")),
        library=_words,
        subjects=texts,
        aliases=texts,
        locations=st.lists(
            st.builds(Location, file=_words, line=st.one_of(st.none(), st.integers(1, 9)), note=_words), max_size=2
        ).map(tuple),
        evidence=st.lists(facts, max_size=2).map(tuple),
        remedies=st.lists(_remedies, max_size=2).map(tuple),
        symptoms=symptoms,
        references=texts,
        known_problems=_words,
        status=st.sampled_from(("stable", "preview")),
        rank=st.integers(0, 99),
        origin=_words,
        accepted=st.one_of(st.none(), st.builds(Acceptance, id=_words, reason=_words, expires=_words, subject=_words)),
    )


traits = st.dictionaries(
    st.sampled_from(
        ("packages.torch", "packages.einops", "libraries.libnccl.so.2", "env.NCCL_ALGO", "env.NCCL_HOSTID", "kernel")
    ),
    st.one_of(st.none(), _words, st.integers(0, 9), st.builds(Unknown, _words)),
)
identities = st.builds(
    Identity,
    node=st.builds(NodeName, name=_words, hostname=_words, named_by=_words),
    environment=st.builds(EnvironmentName, id=_words, prefix=_words, image=st.one_of(st.none(), _words)),
    cohort=st.builds(
        Cohort,
        gpu=st.lists(_words, max_size=2).map(tuple),
        compute_capability=st.lists(_words, max_size=2).map(tuple),
        gpu_count=st.one_of(st.none(), st.integers(0, 8)),
        partition=st.one_of(st.none(), _words),
        environment=_words,
    ),
    fingerprint=traits.map(fingerprint.fingerprint_of),
    volatile=st.dictionaries(_words, st.one_of(_words, st.none(), st.lists(_words, max_size=2)), max_size=2),
)


findings = _findings(st.lists(_findings(st.just(())), max_size=1).map(tuple))
reports = st.builds(
    Report,
    command=st.just("check"),
    doctor_version=_words,
    created=st.just("2026-11-21T00:00:00+00:00"),
    examined=st.builds(Examined, python=_words, version=_words, environment=_words, because=_words, others=st.just(())),
    quick=st.booleans(),
    assumed=st.lists(_names.map(str), max_size=2).map(tuple),
    limited_to=st.lists(st.sampled_from(["torch", "triton"]), max_size=1).map(tuple),
    left_out=st.lists(st.sampled_from(["torch", "triton"]), max_size=1).map(tuple),
    diagnosis=st.builds(
        Diagnosis,
        findings=st.lists(findings, max_size=2).map(tuple),
        open_questions=st.lists(
            st.builds(
                OpenQuestion,
                recipe=_words,
                title=_words,
                undecided=st.lists(facts, max_size=2).map(tuple),
                subject=_words,
            ),
            max_size=2,
        ).map(tuple),
        cleared=st.just(("b",)),
        not_asked=st.just(()),
    ),
    exit_status=st.sampled_from((0, 1, 3)),
    facts=st.lists(facts, max_size=5).map(FactSet),
    logs=st.lists(
        st.builds(
            LogRead,
            name=_words,
            lines=st.integers(0, 9),
            failures=st.integers(0, 9),
            unknown_line=st.one_of(st.none(), st.integers(1, 9)),
            unknown=_words,
            note=_words,
        ),
        max_size=2,
    ).map(tuple),
    nearest=st.lists(st.builds(Near, id=_words, title=_words), max_size=2).map(tuple),
    looked_for=st.lists(_words, max_size=2).map(tuple),
    identity=st.one_of(st.none(), identities),
    failure=st.one_of(st.none(), st.builds(Failure, what=_words, about=_words, hint=_words)),
    full=st.one_of(
        st.none(),
        st.builds(
            FullVerdict,
            content=_words,
            node=_words,
            created=_words,
            prefix=_words,
            compute_capability=st.lists(_words, max_size=2).map(tuple),
            exit_status=st.integers(0, 3),
            findings=st.lists(st.builds(FullFinding, id=_words, severity=_words, title=_words), max_size=2).map(tuple),
            doctor_version=_words,
        ),
    ),
)
