"""Phrases that text and markdown share: what was examined, what a fact says, what it all comes to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attn_doctor.diagnose.placeholders import shown
from attn_doctor.model.facts import Absent, Fact, FactSet, Known, Unknown
from attn_doctor.model.findings import Finding, OpenQuestion
from attn_doctor.model.kinds import KINDS, kind_of
from attn_doctor.model.libraries import distributions
from attn_doctor.model.report import Report
from attn_doctor.report.words import short

if TYPE_CHECKING:
    from attn_doctor.model.trace import Trace

#: Shown in this order when they are installed.
_STACK = (
    "torch", "triton", "pytorch-triton", *distributions(), "transformers", "x-transformers", "llamafactory",
    "deepspeed", "accelerate", "peft", "trl", "vllm", "causal-conv1d", "mamba-ssm", "bitsandbytes",
    "nvidia-cutlass-dsl",
)  # fmt: skip


def examined(report: Report) -> str:
    """The first line of every report."""
    one = report.examined
    if report.logs and not one.python:
        read = ", ".join(log.name for log in report.logs[:3])
        return f"attn-doctor {report.doctor_version} read {read}; no machine was looked at"
    return (
        f"attn-doctor {report.doctor_version} examined {one.python} "
        f"(Python {one.version}, {one.environment}; {one.because})"
    )


def node(facts: FactSet) -> str:
    """The node in a line."""
    parts = [
        facts.text("node.os") or "unknown system",
        f"Linux {facts.text('node.kernel') or '?'}",
        f"glibc {facts.text('libc.version')}" if facts.value("libc.version") else "libc not known",
    ]
    for name, word in (("node.container", "in {}"), ("node.slurm_job", "Slurm job {}")):
        if facts.value(name):
            parts.append(word.format(facts.value(name)))
    if facts.value("driver.version"):
        parts.append(f"driver {facts.value('driver.version')}")
    return f"{facts.text('node.hostname') or 'this node'}: {', '.join(parts)}"


def gpus(facts: FactSet) -> tuple[str, ...]:
    """One line for each sort of GPU, or one that says why there is none."""
    lines: dict[str, list[str]] = {}
    for index in facts.subjects("gpu"):
        own = f"gpu.{index}."
        cc = facts.value(own + "compute_capability")
        native = facts.value(own + "bf16_native")
        words = [
            str(facts.value(own + "name") or "GPU"),
            f"compute capability {cc}" if cc else "compute capability not known",
            *([f"bf16 {'native' if native else 'emulated, not native'}"] if native is not None else []),
        ]
        memory = facts.value(own + "memory_mib")
        if isinstance(memory, int):
            words.append(f"{memory / 1024:.0f} GiB")
        if facts.value(own + "mig") == "on":
            words.append("MIG on")
        if facts.value(own + "visible") is False:
            words.append("hidden by CUDA_VISIBLE_DEVICES")
        if facts.fact(own + "compute_capability").origin.value == "assumed":
            words.append("assumed, not there")
        lines.setdefault(", ".join(words), []).append(index)
    if lines:
        return tuple(f"GPU {', '.join(indices)}: {words}" for words, indices in lines.items())
    state = facts.fact("listed.gpu").state
    if isinstance(state, Unknown):
        return (f"GPUs: could not look: {state.reason}",)
    return ("GPUs: none",)


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
            parts.append(f"{package} (version not readable)")
    torch = facts.fact("torch.version").state
    if not any(part.startswith("torch ") for part in parts):
        parts.insert(0, f"torch {torch.value}" if isinstance(torch, Known) else "no torch")
    return " · ".join(parts)


def samples(facts: FactSet) -> tuple[str, ...]:
    """The sample forward passes: a line for each device and its rules, dtypes as they reached the kernel."""
    lines: dict[str, list[str]] = {}
    for cell in facts.subjects("sample"):
        own = f"sample.{cell}."
        rules = str(facts.value(own + "rules") or "not run")
        if cell.startswith("sdpa-"):
            lines.setdefault(f"sample attention, q k v ({rules})", []).append(_cell(cell, own, facts))
        else:
            verdict = facts.value(own + "verdict") or facts.value(own + "outcome")
            state = facts.fact(own + "outcome").state
            reason = state.reason.removeprefix("not run: ") if isinstance(state, Unknown) else ""
            words = f"not run ({reason})" if isinstance(state, Unknown) else verdict_in_words(str(verdict))
            lines.setdefault(f"library samples ({rules})", []).append(f"{cell} {words}")
    return tuple(f"{title}: {'; '.join(words)}" for title, words in lines.items())


def configs(facts: FactSet) -> tuple[str, ...]:
    """Each configuration: whose it was taken for, and by which keys."""
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
        return words + (went if went == came else f"{went} cast back to {came} at the kernel")
    if outcome == "ran":
        return words + "ran"
    return words + f"{outcome or 'not run'}: {facts.value(own + 'error') or 'no reason given'}"


_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def _short(dtypes: tuple[object, ...]) -> str:
    return " ".join(_SHORT.get(str(dtype), str(dtype)) for dtype in dtypes)


def said(fact: Fact) -> str:
    """A fact in words."""
    match fact.state:
        case Known(value):
            return f"{fact.name} is {shown(value)}"
        case Absent(reason):
            return f"{fact.name} is absent" + (f" ({reason})" if reason else "")
        case Unknown(reason):
            return f"{fact.name} is not known: {reason}"
    raise AssertionError(fact.state)


def evidence(fact: Fact) -> str:
    """A fact as evidence: like `said`, for people who never name a fact themselves."""
    words = "it names as reasons" if str(fact.name) == "log.reasons" else _listed(fact)
    if words is None:
        return said(fact)
    return f"{words}: {shown(fact.state.value)}" if isinstance(fact.state, Known) else f"{words}: not known"


def _listed(fact: Fact) -> str | None:
    """What a list counts: `listed.gpu` says nothing to who reads a report."""
    if fact.name.kind != "listed":
        return None
    return kind_of(fact.name.attribute).heading or None


def confidence(finding: Finding) -> str:
    """How sure a finding is: `confirmed` where the trouble itself was met, `likely` where facts match."""
    if finding.family:
        return "a family of causes with these words, not one cause: the checks above tell which it is"
    if finding.rests_on_assumption:
        words = "as assumed: it holds if the assumed facts do"
    elif finding.certainty == "seen" and any(fact.name.kind == "config" for fact in finding.evidence):
        words = "confirmed: read in the configuration itself; nothing was run"
    elif finding.certainty == "seen":
        words = "confirmed: observed here"
    elif any(location.note for location in finding.locations):
        words = "likely: the log's text matches, and no known fact contradicts it"
    else:
        words = "likely: the facts above match; not observed here"
    return words + ("; this recipe is a preview" if finding.status == "preview" else "")


def verdict(report: Report) -> tuple[str, ...]:
    """The last lines: what it all comes to, and what it does not cover."""
    lines = [_of_trace(report.trace) if report.trace and not report.diagnosis.findings else short.counted(report) + "."]
    questions = len(report.diagnosis.open_questions)
    if questions:
        lines.append(
            f"{questions} question{'s' if questions > 1 else ''} open: "
            f"treat {'them' if questions > 1 else 'it'} as unknown, not as healthy."
        )
    lines += own_faults(report)
    if report.nothing_to_examine:
        if not report.diagnosis.findings:
            del lines[0]  # "nothing wrong found" would read as healthy
        lines.insert(
            0 if not report.diagnosis.findings else 1,
            f"Nothing to examine here: {report.nothing_to_examine}. "
            "Activate the environment that you mean, or name it with --python.",
        )
    elif short.without_torch(report):
        lines.append(
            "No torch in this environment: nothing above says that attention would run in it. If another one was "
            "meant, activate it or name it with --python."
        )
    listed = report.facts.fact("listed.gpu").state
    if report.command == "check" and listed == Known(0) and not report.facts.subjects("gpu"):
        lines.append(
            "No GPU here, so this node was not examined for one: nothing above says that a GPU job would run. "
            "Name the target, for example --gpu h100, to see what holds there."
        )
    if report.trace is not None and any(call.verdict == "clean" for call in report.trace.calls):
        from attn_doctor.model.trace import JUDGED

        lines.append(f"Clean means: {JUDGED}.")
    if report.quick:
        lines.append(
            "--quick: nothing was imported or run"
            + (f"; {len(report.diagnosis.not_asked)} recipes rest on that." if report.diagnosis.not_asked else ".")
            + _left_out(report.facts)
        )
    foreign = as_root(report.facts, quick=report.quick)
    if foreign and report.command in ("check", "trace"):
        lines.append(foreign)
    if report.limits and report.command == "check":
        lines.append(f"Partial check ({report.limits}): other recipes were not evaluated.")
    if report.assumed:
        given = dict.fromkeys(report.facts.fact(name).how for name in report.assumed)
        lines.append(f"Judged as if: {', '.join(given)}.")
    return tuple(lines)


def own_faults(report: Report) -> tuple[str, ...]:
    """One line where parts of attn-doctor failed."""
    if not report.own_faults:
        return ()
    parts = ", ".join(dict.fromkeys(fault.part for fault in report.own_faults))
    logs = ", ".join(dict.fromkeys(fault.log for fault in report.own_faults))
    return (f"attn-doctor's own {parts} failed: what they would have reported is not known. The log: {logs}",)


def _left_out(facts: FactSet) -> str:
    code = facts.value("python.startup_code")
    if not isinstance(code, tuple) or not code:
        return ""
    names = list(dict.fromkeys(str(file).rpartition("/")[2] for file in code))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f" The code in {', '.join(names[:4])}{more}, which every start of this Python runs, was not run either."


def as_root(facts: FactSet, *, quick: bool) -> str:
    """What root should know who examines somebody else's environment; empty where nobody's code ran as root."""
    owner = facts.value("python.owner")
    if facts.value("python.examined_as") != 0 or not isinstance(owner, int) or owner == 0:
        return ""
    ran = "its interpreter alone" if quick else "its interpreter and its packages"
    return f"The environment is owned by user {owner}, and was examined as root: {ran} ran as root."


def verdict_in_words(verdict: str) -> str:
    """A trace's verdict as people read it; formats for programs keep its name."""
    return "promoted, then cast back" if verdict == "promoted then repaired" else verdict


def _of_trace(trace: Trace) -> str:
    """What a traced run without a finding comes to."""
    if trace.error and trace.verdict in ("raises", "silently mixed"):
        return "No verdict on the cause: an attention call failed, and no recipe explains it."
    if trace.error_kind == "attention refused":
        return "No verdict: the config's class does not take that attention."
    if trace.error:
        return "No verdict: the run ended early."
    if not trace.seen:
        return "No verdict: no attention call was seen."
    if trace.verdict == "promoted then repaired":
        return (
            "nothing that fails here: float32 reached an attention call, which cast it back; "
            "that costs time and memory, and a kernel that autocast does not know refuses it."
        )
    if any(call.stand_in and not call.needs_gpu for call in trace.calls):
        return "nothing wrong found with a stand-in for what is not installed here: without that it does not run."
    if any(call.stand_in for call in trace.calls):
        return "nothing wrong found, with zeros in place of a kernel that runs on a GPU only."
    return "nothing wrong found."


def by_reason(questions: tuple[OpenQuestion, ...]) -> dict[str, list[str]]:
    """Open questions under what stands in their way: one hung driver leaves many recipes open."""
    grouped: dict[str, list[str]] = {}
    for question in questions:
        reasons = list(dict.fromkeys(_reason(fact) for fact in question.undecided)) or ["not decided"]
        name = question.recipe + (f" ({question.subject})" if question.subject else "")
        grouped.setdefault("; ".join(reasons), []).append(name)
    return grouped


def _reason(fact: Fact) -> str:
    if isinstance(fact.state, Unknown) and fact.name.kind == "recipe":
        return f"could not be judged: {fact.state.reason}"
    if isinstance(fact.state, Unknown):
        return f"could not look at {_listed(fact) or fact.name}: {fact.state.reason}"
    return f"{said(fact)}, which cannot be compared with the boundary version"


def symptoms(these: tuple[Finding, ...]) -> tuple[tuple[str, str], ...]:
    """What a finding led to, and where; what several samples met alike is one line."""
    found = []
    for one in these:
        places = [f"{place.file}:{place.line}" if place.line else place.file for place in one.locations]
        found.append((one.title, f"  [{', '.join(places)}]" if places else ""))
    return tuple(dict.fromkeys(found))


def telling(subjects: tuple[str, ...], title: str = "") -> tuple[str, ...]:
    """The subjects that tell a person something: not what the title says already, nor a number in our own lists."""
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
        others.insert(0, f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}")
    return ", ".join(others)
