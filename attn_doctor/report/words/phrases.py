"""Phrases shared by text and markdown: the target, the text of a fact, the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attn_doctor.diagnose.placeholders import shown
from attn_doctor.model.facts import Absent, Fact, FactSet, Known, Unknown
from attn_doctor.model.findings import Finding, OpenQuestion
from attn_doctor.model.kinds import KINDS, kind_of
from attn_doctor.model.libraries import distributions
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled, to_say
from attn_doctor.report.words import verdict

if TYPE_CHECKING:
    pass

#: Shown in this order when they are installed.
_STACK = (
    "torch", "triton", "pytorch-triton", *distributions(), "transformers", "x-transformers", "llamafactory",
    "deepspeed", "accelerate", "peft", "trl", "vllm", "causal-conv1d", "mamba-ssm", "bitsandbytes",
    "nvidia-cutlass-dsl",
)  # fmt: skip


def examined(report: Report) -> str:
    """The first line of every report."""
    one = report.examined
    if report.foreseen is not None:
        lock = report.foreseen
        left = say(", {open} of them left to an installer", open=lock.open) if lock.open else ""
        words = say(
            "attn-doctor {doctor_version} read {file}: {packages} packages{left}",
            doctor_version=report.doctor_version,
            file=lock.file,
            packages=lock.packages,
            left=left,
        )
        return "; ".join([say("{words}; nothing is installed, findings are foreseen", words=words), *lock.notes])
    if report.logs and not one.python:
        read = ", ".join(log.name for log in report.logs[:3])
        return say(
            "attn-doctor {doctor_version} read {read}; no machine was looked at",
            doctor_version=report.doctor_version,
            read=read,
        )
    return say(
        "attn-doctor {doctor_version} examined {python} (Python {version}, {environment}; {because})",
        doctor_version=report.doctor_version,
        python=one.python,
        version=one.version,
        environment=one.environment,
        because=say_filled(one.because),
    )


def node(facts: FactSet) -> str:
    """The node in a line."""
    parts = [
        facts.text("node.os") or say("unknown system"),
        f"Linux {facts.text('node.kernel') or '?'}",
        f"glibc {facts.text('libc.version')}" if facts.value("libc.version") else say("libc not known"),
    ]
    for name, word in (("node.container", to_say("in {value}")), ("node.slurm_job", to_say("Slurm job {value}"))):
        if facts.value(name):
            parts.append(say(word, value=facts.value(name)))
    if facts.value("driver.version"):
        parts.append(f"driver {facts.value('driver.version')}")
    return f"{facts.text('node.hostname') or say('this node')}: {', '.join(parts)}"


def gpus(facts: FactSet) -> tuple[str, ...]:
    """One line for each GPU model, or one with the reason why there is none."""
    lines: dict[str, list[str]] = {}
    for index in facts.subjects("gpu"):
        own = f"gpu.{index}."
        cc = facts.value(own + "compute_capability")
        native = facts.value(own + "bf16_native")
        words = [
            str(facts.value(own + "name") or "GPU"),
            say("compute capability {cc}", cc=cc) if cc else say("compute capability not known"),
            *(
                [say("bf16 {more}", more=say("native") if native else say("emulated, not native"))]
                if native is not None
                else []
            ),
        ]
        memory = facts.value(own + "memory_mib")
        if isinstance(memory, int):
            words.append(f"{memory / 1024:.0f} GiB")
        if facts.value(own + "mig") == "on":
            words.append(say("MIG on"))
        if facts.value(own + "visible") is False:
            words.append(say("hidden by CUDA_VISIBLE_DEVICES"))
        if facts.fact(own + "compute_capability").origin.value == "assumed":
            words.append(say("assumed, not there"))
        lines.setdefault(", ".join(words), []).append(index)
    if lines:
        return tuple(
            say("GPU {indices}: {words}", indices=", ".join(indices), words=words) for words, indices in lines.items()
        )
    state = facts.fact("listed.gpu").state
    if isinstance(state, Unknown):
        return (say("GPUs: could not look: {reason}", reason=state.reason),)
    return (say("GPUs: none"),)


def stack(facts: FactSet) -> str:
    """The installed attention stack in a line."""
    parts = []
    for package in _STACK:
        state = facts.fact(f"package.{package}.version").state
        if package == "torch" and facts.value("torch.version"):
            state = facts.fact("torch.version").state  # with its build's tag, which metadata may leave out
        if isinstance(state, Known):
            parts.append(f"{package} {state.value}")
        elif isinstance(state, Unknown) and package in facts.subjects("package"):
            parts.append(say("{package} (version not readable)", package=package))
    torch = facts.fact("torch.version").state
    if not any(part.startswith("torch ") for part in parts):
        parts.insert(0, f"torch {torch.value}" if isinstance(torch, Known) else say("no torch"))
    return " · ".join(parts)


def samples(facts: FactSet) -> tuple[str, ...]:
    """The sample forward passes: a line for each device and its rules, dtypes as they reached the kernel."""
    lines: dict[str, list[str]] = {}
    for cell in facts.subjects("sample"):
        own = f"sample.{cell}."
        rules = str(facts.value(own + "rules") or say("not run"))
        if cell.startswith("sdpa-"):
            lines.setdefault(say("sample attention, q k v ({rules})", rules=rules), []).append(_cell(cell, own, facts))
        else:
            outcome = facts.value(own + "verdict") or facts.value(own + "outcome")
            state = facts.fact(own + "outcome").state
            reason = state.reason.removeprefix("not run: ") if isinstance(state, Unknown) else ""
            words = (
                say("not run ({reason})", reason=reason)
                if isinstance(state, Unknown)
                else verdict.of_trace(str(outcome))
            )
            lines.setdefault(say("library samples ({rules})", rules=rules), []).append(f"{cell} {words}")
    return tuple(f"{title}: {'; '.join(words)}" for title, words in lines.items())


def configs(facts: FactSet) -> tuple[str, ...]:
    """Each configuration: the framework it was recognized as, and the keys that identify it."""
    lines = []
    for file in facts.subjects("config"):
        fact = facts.fact(f"config.{file}.framework")
        if isinstance(fact.state, Known):
            lines.append(f"{file}: {fact.state.value}" + (f" ({fact.how.partition(': ')[2]})" if fact.how else ""))
    return tuple(lines)


def _cell(cell: str, own: str, facts: FactSet) -> str:
    outcome = facts.value(own + "outcome")
    handed, kernel = facts.value(own + "handed_dtypes"), facts.value(own + "kernel_dtypes")
    dtype, _, mode = cell.rpartition("-")
    words = f"{_SHORT.get(dtype.rpartition('-')[2], dtype)} {mode}: "
    if outcome == "ran" and isinstance(kernel, tuple):
        came, went = _short(kernel), _short(handed) if isinstance(handed, tuple) else _short(kernel)
        return words + (went if went == came else say("{went} cast back to {came} at the kernel", went=went, came=came))
    if outcome == "ran":
        return words + say("ran")
    return words + f"{outcome or say('not run')}: {facts.value(own + 'error') or say('no reason given')}"


_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def _short(dtypes: tuple[object, ...]) -> str:
    return " ".join(_SHORT.get(str(dtype), str(dtype)) for dtype in dtypes)


def said(fact: Fact) -> str:
    """A fact in words."""
    match fact.state:
        case Known(value):
            return say("{name} is {value}", name=fact.name, value=shown(value))
        case Absent(reason):
            return say("{name} is absent", name=fact.name) + (f" ({reason})" if reason else "")
        case Unknown(reason):
            return say("{name} is not known: {reason}", name=fact.name, reason=reason)
    raise AssertionError(fact.state)


#: What the facts of a log mean that are shown as evidence.
_IN_WORDS = {
    "log.reasons": "it names as reasons",
    "log.work_done": "a notice, for the program did its work behind it",
}


def evidence(fact: Fact) -> str:
    """A fact as evidence, without its technical name."""
    words = say(_IN_WORDS[str(fact.name)]) if str(fact.name) in _IN_WORDS else _listed(fact)
    if words is None:
        return said(fact)
    return (
        f"{words}: {shown(fact.state.value)}"
        if isinstance(fact.state, Known)
        else say("{words}: not known", words=words)
    )


def is_of_the_line(fact: Fact) -> bool:
    """It was read in the log and has no words of its own: the quoted line tells a reader more than the fact's name."""
    return fact.name.kind == "log" and str(fact.name) not in _IN_WORDS


def _listed(fact: Fact) -> str | None:
    """A phrase for the number in a listing; `listed.gpu` means nothing to a reader."""
    if fact.name.kind != "listed":
        return None
    return say(kind_of(fact.name.attribute).heading) or None


def confidence(finding: Finding) -> str:
    """The confidence of a finding: `confirmed` when the problem was observed, `likely` when facts match."""
    if finding.possible:
        if finding.by_words:
            return say("possible: no pattern of it stands in the log, whose words together are those of this trouble")
        if finding.family:
            return say("possible: a family of causes, whose words stand in the log, which does not decide for it")
        return say("possible: its words stand in the log, which does not decide between this and others")
    if finding.by_words:
        return say("by its words: no pattern of it stands in the log, whose words together are those of this trouble")
    if finding.family:
        return say("a family of causes with these words, not one cause: the checks above tell which it is")
    if finding.rests_on_assumption:
        words = say("as assumed: it holds if the assumed facts do")
    elif finding.certainty == "seen" and any(fact.name.kind == "config" for fact in finding.evidence):
        words = say("confirmed: read in the configuration itself; nothing was run")
    elif finding.certainty == "seen":
        words = say("confirmed: observed here")
    elif any(location.note for location in finding.locations):
        words = say("likely: the log's text matches, and no known fact contradicts it")
    else:
        words = say("likely: the facts above match; not observed here")
    return words + (say("; this recipe is a preview") if finding.status == "preview" else "")


def by_reason(questions: tuple[OpenQuestion, ...]) -> dict[str, list[str]]:
    """Open questions grouped by their reason: one hung driver leaves many recipes undecided."""
    grouped: dict[str, list[str]] = {}
    for question in questions:
        reasons = list(dict.fromkeys(_reason(fact) for fact in question.undecided)) or [say("not decided")]
        name = question.recipe + (f" ({question.subject})" if question.subject else "")
        grouped.setdefault("; ".join(reasons), []).append(name)
    return grouped


def _reason(fact: Fact) -> str:
    if isinstance(fact.state, Unknown) and fact.name.kind == "recipe":
        return say("could not be judged: {reason}", reason=fact.state.reason)
    if isinstance(fact.state, Unknown):
        return say("could not look at {words}: {reason}", words=_listed(fact) or fact.name, reason=fact.state.reason)
    return say("{said}, which cannot be compared with the boundary version", said=said(fact))


def symptoms(these: tuple[Finding, ...]) -> tuple[tuple[str, str], ...]:
    """The consequences of a finding, with places; equal results of several samples are one line."""
    found = []
    for one in these:
        places = [f"{place.file}:{place.line}" if place.line else place.file for place in one.locations]
        found.append((one.title, f"  [{', '.join(places)}]" if places else ""))
    return tuple(dict.fromkeys(found))


def telling(subjects: tuple[str, ...], title: str = "") -> tuple[str, ...]:
    """The subjects worth showing: neither part of the title already, nor a number in an internal list."""
    by_call = "|".join(kind.name for kind in KINDS if kind.by_call)
    counted = re.compile(rf"({by_call}) \d+")
    these = tuple(one for one in subjects if not counted.fullmatch(one))
    return () if len(these) == 1 and these[0].partition(" ")[2] in title else these


def shortened(subjects: tuple[str, ...]) -> str:
    """`rank 0-511` for 512 of them; others as they are."""
    ranks = sorted({int(one.removeprefix("rank ")) for one in subjects if re.fullmatch(r"rank \d+", one)})
    others = [one for one in subjects if not re.fullmatch(r"rank \d+", one)]
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if words:
        others.insert(0, say("rank{s} {words}", s="s" if len(ranks) > 1 else "", words=", ".join(words)))
    return ", ".join(others)
