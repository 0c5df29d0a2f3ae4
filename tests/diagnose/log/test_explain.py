"""From matches to a diagnosis: what wins, what facts decide, what is left open."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.log.causes import explain, explain_text
from attn_doctor.diagnose.log.clean import clean
from attn_doctor.diagnose.log.cut import cut
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.message_facts import of_unit
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.recipes.shelf import bundled
from tests.diagnose.log.making import made

TOO_OLD = made(
    "gpu-too-old",
    {"pattern": "only supports Ampere"},
    when=[{"fact": "gpu.compute_capability", "below": "8.0", "for_each": "gpu"}],
    rank=30,
)
TOO_NEW = made(
    "package-too-old",
    {"pattern": "only supports Ampere"},
    when=[{"fact": "gpu.compute_capability", "at_least": "10.0", "for_each": "gpu"}],
    rank=40,
)
BOTH = (TOO_OLD, TOO_NEW)
TEXT = "RuntimeError: it only supports Ampere GPUs"


def said(text: str, *recipes: object, facts: FactSet | None = None) -> Diagnosis:
    return explain_text(text, recipes, facts or FactSet()).diagnosis  # type: ignore[arg-type]


def ids(diagnosis: Diagnosis) -> list[str]:
    return [finding.id for finding in diagnosis.findings]


def node(**values: str | int) -> FactSet:
    return FactSet(
        Fact(name=FactName.parse(name.replace("__", ".")), state=Known(value), how="probed", origin=Origin.PROBED)
        for name, value in values.items()
    )


def test_opposite_causes_are_both_offered_with_the_question() -> None:
    """Without a fact, one text means either."""
    diagnosis = said(TEXT, *BOTH)

    assert ids(diagnosis) == ["gpu-too-old", "package-too-old"]
    assert {finding.certainty for finding in diagnosis.findings} == {"inferred"}
    assert {str(fact.name) for question in diagnosis.open_questions for fact in question.undecided} == {
        "gpu.0.compute_capability"
    }


@pytest.mark.parametrize(("gpu", "cause"), [("7.5", "gpu-too-old"), ("12.0", "package-too-old")])
def test_facts_decide(gpu: str, cause: str) -> None:
    """The GPU tells which of the two it is; on one that is neither, it is neither."""
    diagnosis = said(TEXT, *BOTH, facts=assume(FactSet(), [f"gpu.compute_capability={gpu}"]))

    assert ids(diagnosis) == [cause]
    assert diagnosis.findings[0].certainty == "seen"
    assert diagnosis.open_questions == ()
    assert ids(said(TEXT, *BOTH, facts=assume(FactSet(), ["gpu.compute_capability=9.0"]))) == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Your Tesla T4 GPU has compute capability 7.5.", "gpu-too-old"),
        (
            "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch",
            "package-too-old",
        ),
        ("GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-1)", "package-too-old"),
        ("my nvidia T4 has 16 GB", "gpu-too-old"),
        ("GPU：5090", "package-too-old"),
        ("显卡: RTX5090", "package-too-old"),
        ("我用的是5090显卡", "package-too-old"),
        ("it runs on a 5090 since yesterday", "package-too-old"),
        ("my 2080 Ti, of course", "gpu-too-old"),
        ("an old rtx 2070 here", "gpu-too-old"),
        ("NVidia gtx 5090", "package-too-old"),
        ("I have a gtx 5090 and it stops", "package-too-old"),
        ("4*titan XP", "gpu-too-old"),
        ("- Compute capability: 121", "package-too-old"),
        ("- Compute capability: 75", "gpu-too-old"),
        ("an old gtx 1080 here", "gpu-too-old"),
        ("trained on 8 x V100 before", "gpu-too-old"),
        ("V100 x 8, xDiT", "gpu-too-old"),
        ("batch 4, V100*8", "gpu-too-old"),
        ("inference cannot be performed on v100", "gpu-too-old"),
        ("V100 is not supported.", "gpu-too-old"),
        ("V100 is not supported. RuntimeError: it only supports Ampere GPUs or newer.", "gpu-too-old"),
        ("our V100 cards stop there", "gpu-too-old"),
        ("requires device with capability <= (9, 0) but your GPU has capability (12, 0) (too new)", "package-too-old"),
    ],
)
def test_the_log_tells_its_gpu(line: str, cause: str) -> None:
    """What another line of the log says of the GPU decides, and is quoted."""
    diagnosis = said(f"{line}\n{TEXT}", *BOTH)

    assert ids(diagnosis) == [cause]
    assert "line 1" in diagnosis.findings[0].evidence[0].how


@pytest.mark.parametrize(
    "line",
    [
        "this needs compute capability of at least 8.0",
        "NVIDIA RTX 5000",
        "Feature '.bf16' requires .target sm_80",
        "bf16 is only supported on V100+ GPUs",
        "GPU: 5090 steps done",
        "trained for 5090 steps with 2080 tokens on my disk",
        "with V100 or newer",
        "it needs V100 GPUs",
        "part v100 of the manual",
        "a titan of industry, volume x",
        "a Titan X",
        "a GPU",
    ],
)
def test_what_does_not_tell_the_gpu(line: str) -> None:
    """A capability that is asked for, and a name of several GPUs, decide nothing."""
    assert ids(said(f"{line}\n{TEXT}", *BOTH)) == ["gpu-too-old", "package-too-old"]


def test_a_log_of_another_machine() -> None:
    """What the log says of its GPU stands above this node's, and says so; what a person assumes stands above both."""
    log = f"Your GPU has compute capability 7.5.\n{TEXT}"
    here = node(listed__gpu=1, gpu__0__compute_capability="12.0")
    (finding,) = said(log, *BOTH, facts=here).findings

    assert finding.id == "gpu-too-old"
    assert "this node has 12.0" in finding.evidence[0].how
    assert ids(said(log, *BOTH, facts=assume(FactSet(), ["gpu.compute_capability=12.0"]))) == ["package-too-old"]


def test_a_node_without_a_gpu_did_not_write_the_log() -> None:
    """A login node refutes nothing about GPUs."""
    assert ids(said(TEXT, *BOTH, facts=node(listed__gpu=0))) == ["gpu-too-old", "package-too-old"]


def test_text_that_proves_itself() -> None:
    """`confirms`: no fact speaks against it."""
    recipe = made(
        "sure", {"pattern": "only supports Ampere", "confirms": True}, when=[{"fact": "torch.version", "below": "2.0"}]
    )

    assert ids(said(TEXT, recipe, facts=node(torch__version="2.8.0"))) == ["sure"]


def test_conditions_of_a_text_alone() -> None:
    """`when` of a pattern stands in place of the recipe's."""
    log = {"pattern": "broken", "when": [{"fact": "log.fp32_operands", "equals": "k"}]}
    recipe = made("k-only", log, when=[{"fact": "torch.version", "below": "1.0"}])
    text = "RuntimeError: broken query.dtype: c10::Half key.dtype: float and value.dtype: c10::Half instead."

    assert ids(said(text, recipe)) == ["k-only"]
    assert ids(said(text.replace("float", "c10::Half"), recipe)) == []
    assert ids(said("RuntimeError: broken", recipe)) == ["k-only"]


def test_wrappers_lose() -> None:
    """An outer line is only worth saying where nothing else explains the log."""
    inner = made("inner", {"pattern": "the cause", "confirms": True})
    outer = made("outer", {"pattern": "it failed", "wrapper": True, "confirms": True}, rank=1)
    log = "error: it failed\nValueError: the cause\nsubprocess: it failed"

    assert ids(said(log, inner, outer)) == ["inner"]
    assert ids(said("error: it failed", inner, outer)) == ["outer"]


def test_the_innermost_exception_comes_first() -> None:
    """Of a chain, what was raised first, whatever the ranks."""
    inner = made("inner", {"pattern": "the cause", "confirms": True}, rank=90)
    outer = made("outer", {"pattern": "the result", "confirms": True}, rank=10)
    log = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: the cause\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in f\nRuntimeError: the result'
    )
    assert ids(said(log, inner, outer)) == ["inner", "outer"]


def test_outranked_in_the_same_unit_only() -> None:
    """`outranks` speaks of one message, not of the whole log."""
    special = made("special", {"pattern": "message of xformers", "outranks": ["general"], "confirms": True})
    general = made("general", {"pattern": "message", "confirms": True}, {"pattern": "messages"})

    assert ids(said("ValueError: message of xformers", special, general)) == ["special"]
    assert ids(said("ValueError: message of xformers\nValueError: messages", special, general)) == [
        "special",
        "general",
    ]


def test_unless_and_nearby() -> None:
    """Patterns in the same unit and in nearby lines exclude or allow a match."""
    recipe = made("r", {"pattern": "needle", "unless": "harmless", "nearby": "compiling", "unless_nearby": "rocm"})

    assert ids(said("compiling\nValueError: needle", recipe)) == ["r"]
    assert ids(said("ValueError: needle", recipe)) == []
    assert ids(said("compiling\nValueError: needle harmless", recipe)) == []
    assert ids(said("compiling for rocm\nValueError: needle", recipe)) == []
    assert ids(said("compiling\n" + "step\n" * 5000 + "ValueError: needle", recipe)) == []


def test_kinds_of_units() -> None:
    """A text may mean something as an exception, and nothing as a warning."""
    recipe = made("r", {"pattern": "needle", "kind": ["traceback", "message"]})

    assert ids(said("ValueError: needle", recipe)) == ["r"]
    assert ids(said("WARNING: needle", recipe)) == []


def test_severities() -> None:
    """An exception shows that the trouble was reached; a warning shows what the recipe says; info stays info."""
    recipe = made("r", {"pattern": "needle"})

    assert said("ValueError: needle", recipe).findings[0].severity is Severity.ERROR
    assert said("x.py:3: UserWarning: needle", recipe).findings[0].severity is Severity.WARNING
    assert (
        said("ValueError: needle", made("r", {"pattern": "needle"}, severity="info")).findings[0].severity
        is Severity.INFO
    )
    told = made("r", {"pattern": "needle", "severity": "info"})
    assert said("ValueError: needle", told).findings[0].severity is Severity.INFO


def test_extracted_facts_decide() -> None:
    """What a pattern takes out of the text is a fact like others."""
    recipe = made(
        "driver",
        {"pattern": r"driver (?P<found>\d+\.\d+) is here", "extracts": {"found": "driver.version"}},
        when=[{"fact": "driver.version", "below": "550"}],
    )
    assert ids(said("ValueError: driver 535.10 is here", recipe)) == ["driver"]
    assert ids(said("ValueError: driver 580.10 is here", recipe)) == []


def test_many_logs_one_finding() -> None:
    """512 ranks that say the same are one finding that names them, by prefix or by file name."""
    recipe = made("r", {"pattern": "needle", "confirms": True})
    scanner = Scanner(Patterns([recipe]))
    logs = [scanner.scan(f"logs/rank_{rank}.log", ["step 1\nValueError: needle\n"]) for rank in range(512)]
    (finding,) = explain(logs, FactSet()).diagnosis.findings

    assert finding.subjects == tuple(f"rank {rank}" for rank in range(512))
    assert finding.locations[0].file == "logs/rank_0.log"
    assert (finding.locations[0].line, finding.locations[0].note) == (2, "ValueError: needle")


def test_logs_that_disagree() -> None:
    """Each log is judged by its own GPU; what they do not agree in is no fact of the whole."""
    scanner = Scanner(Patterns(BOTH))
    old = scanner.scan("a", [f"Your GPU has compute capability 7.5.\n{TEXT}\n"])
    new = scanner.scan("b", [f"Your GPU has compute capability 12.0.\n{TEXT}\n"])
    told = explain([old, new], FactSet())

    assert {finding.id: finding.locations[0].file for finding in told.diagnosis.findings} == {
        "gpu-too-old": "a",
        "package-too-old": "b",
    }
    assert told.facts.value("gpu.0.compute_capability") is None


def test_an_unknown_failure_is_told() -> None:
    """The last exception that no recipe knows is named with its line."""
    scanned = Scanner(Patterns([TOO_OLD])).scan("a", ["step\nKeyError: 'text'\n"])

    assert scanned.last_failure == (2, "KeyError: 'text'")
    assert scanned.failures == 1


@pytest.mark.parametrize(
    "text", ["", "\n\n\n", "\x00" * 5000, "\ufffd\x1b[", "│" * 300, "a" * 100_000, "[" * 5000, "(pid=" * 2000]
)
def test_garbage(text: str) -> None:
    """Anything gets an answer."""
    assert ids(said(text, *BOTH)) == []


ONLY_WITH_FACTS = made(
    "amd-build",
    {
        "pattern": "only supports Ampere",
        "only_with_facts": True,
        "when": [{"fact": "gpu.compute_capability", "below": "8.0", "for_each": "gpu"}],
    },
)


@pytest.mark.parametrize(("gpu", "found"), [("", []), ("7.5", ["amd-build"]), ("9.0", [])])
def test_a_text_that_says_too_little_alone(gpu: str, found: list[str]) -> None:
    """It is not offered, and asks no question, until facts make it so."""
    facts = assume(FactSet(), [f"gpu.compute_capability={gpu}"] if gpu else [])
    diagnosis = said(TEXT, ONLY_WITH_FACTS, facts=facts)

    assert ids(diagnosis) == found
    assert diagnosis.open_questions == ()


def test_what_facts_rule_out_is_kept() -> None:
    """A message of which every known cause is impossible is told as such, once, with the recipes; others are not."""
    scanned = Scanner(Patterns(BOTH)).scan("a.log", ["ok\n", TEXT, "\n"])
    ruled_out = explain([scanned], assume(FactSet(), ["gpu.compute_capability=9.0"])).refuted
    possible = explain([scanned], assume(FactSet(), ["gpu.compute_capability=7.5"])).refuted

    assert [(one.line, one.quoted, one.recipes) for one in ruled_out] == [(2, TEXT, ("gpu-too-old", "package-too-old"))]
    assert possible == ()


def test_evidence_stands_in_the_line_it_is_said_of() -> None:
    """Each fact that a message tells names the line of the log that has it, not where its traceback begins."""
    text = (
        "step 1\n"
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.11/site-packages/flash_attn/__init__.py", line 3, in <module>\n'
        "    import flash_attn_2_cuda\n"
        "ImportError: /env/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: "
        "undefined symbol: _ZN3c104cuda9SetDeviceEi\n"
    )
    (finding,) = said(text, *bundled()).findings

    told = {fact.name.attribute: fact.how for fact in finding.evidence}
    assert told["symbol"].startswith("line 5 of")
    assert told["innermost_owner"].startswith("line 5 of")


_PACKAGES = "/env/lib/python3.11/site-packages/"


@pytest.mark.parametrize(
    ("frames", "owner"),
    [
        (("/home/me/train.py",), None),
        (("/home/me/train.py", _PACKAGES + "vllm/attention.py"), "vllm"),
        ((_PACKAGES + "vllm/attention.py", _PACKAGES + "torch/nn/modules/module.py"), "vllm"),
        ((_PACKAGES + "vllm/attention.py", "/home/me/patch.py"), None),
    ],
)
def test_a_call_that_was_refused_is_of_the_caller(frames: tuple[str, ...], owner: str | None) -> None:
    """The function's own file is in no frame; what only passes a call on is passed over, and own code has no owner."""
    shown = "".join(f'  File "{path}", line {number}, in run\n    go()\n' for number, path in enumerate(frames, 1))
    error = "TypeError: flash_attn_func() got an unexpected keyword argument 'softcap'\n"
    text = "Traceback (most recent call last):\n" + shown + error
    (unit,) = cut(clean(number, line) for number, line in enumerate(text.splitlines(), start=1))
    facts = {str(one.name): one for one in of_unit(unit, "a log")}

    found = facts.get("log.innermost_owner")
    assert (found and getattr(found.state, "value", None)) == owner
    if found:
        assert found.how.startswith(f"line {2 * frames.index(_PACKAGES + 'vllm/attention.py') + 2} of")


@pytest.mark.parametrize("recipe", [one for one in bundled() if one.logs], ids=lambda one: str(one.id))
def test_no_text_has_holes(recipe: Recipe) -> None:
    """What a log does not tell leaves no lone question mark in a title, a cure or a command to be copied; no title is
    the recipe's id."""
    named = recipe.id.replace("-", " ")
    for case in recipe.cases:
        if not case.log:
            continue
        for finding in said(case.log, recipe).findings:
            title = finding.title.lower()
            assert title != named
            assert not re.search(r"\?|\{|\bcuda needs", title), title
            texts = [finding.title, finding.why, finding.known_problems]
            for remedy in finding.remedies:
                texts += [remedy.title, remedy.why_this_safety]
                for one in remedy.actions:
                    texts += [one.action.advice, *one.commands]
            for one in texts:
                assert not re.search(r"(?:^|[\s(=\w-])\?(?:$|[\s).,;:/])", one), one
                assert not re.search(r" (?:than|for torch|for CUDA|install)$", one.rstrip(" .")), one
                assert "None is published" not in one, one


DRIVER = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver.\n"
NO_DEVICE = "RuntimeError: No CUDA GPUs are available\n"


def test_what_a_cause_explains_hangs_under_it() -> None:
    """A driver that is too old is why torch sees no GPU: one finding, as bad as its symptom."""
    (finding,) = said(f"UserWarning: CUDA initialization: {DRIVER}{NO_DEVICE}", *bundled()).findings

    assert (finding.id, finding.severity, [one.id for one in finding.symptoms]) == (
        "driver-too-old", Severity.ERROR, ["no-cuda-device-visible"],
    )  # fmt: skip
    assert ids(said(NO_DEVICE, *bundled())) == ["no-cuda-device-visible"]


def test_a_cause_in_another_log_explains_nothing() -> None:
    """Another rank's driver is another node's: both are told."""
    scanner = Scanner(Patterns(bundled()))
    logs = [scanner.scan("a", [f"UserWarning: CUDA initialization: {DRIVER}"]), scanner.scan("b", [NO_DEVICE])]

    assert ids(explain(logs, FactSet()).diagnosis) == ["no-cuda-device-visible", "driver-too-old"]


def test_what_a_line_of_code_and_the_message_say_is_quoted_as_the_message() -> None:
    recipe = made("no-moon", {"pattern": "there is no (?P<of>\\w+) here", "extracts": {"of": "log.symbol"}})
    text = """    Traceback (most recent call last):
      File "/w/night.py", line 4, in look
        raise RuntimeError("there is no light here, as there is no moon here")
    RuntimeError: there is no moon here"""
    (finding,) = said(text, recipe).findings
    assert "RuntimeError: there is no moon here" in str(finding)


def test_what_a_notebook_shows_around_the_line_that_ran_did_not_happen() -> None:
    moon = made("no-moon", {"pattern": "there is no moon"})
    light = made("no-light", {"pattern": "there is no light", "unless": "is_moon_there"})
    text = """RuntimeError                              Traceback (most recent call last)
Cell In[5], line 3
----> 3 look()

File /opt/night/lib/python3.10/site-packages/night/eyes.py:62, in look(self)
     58 if not is_moon_there():
     59     raise RuntimeError(
     60         f"there is no moon"
     61     )
---> 62 raise RuntimeError("there is no light")

RuntimeError: there is no light"""
    assert ids(said(text, moon, light)) == ["no-light"]
