"""What compilers, imports and traced runs say leads to the recipe that `explain` finds in the same words."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.traced import met
from attn_doctor.model.facts import Absent
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.recipes import shelf
from tests.diagnose.test_derived import facts

RECIPES = shelf.shelf()
CHUNK = "/env/site-packages/fla/ops/gsa/chunk.py"
MLIR = f"""loc("{CHUNK}":362:38): error: invalid element type in packLLEElements. Expected 'i16' but got 'bf16'
loc("{CHUNK}":362:38): error: 'llvm.extractelement' op failed to verify that result type matches vector element type
LLVM ERROR: Failed to translate TritonGPU to LLVM IR."""


def judged(**values: object) -> Diagnosis:
    return judge(derive(facts(**{name.replace("__", "."): value for name, value in values.items()})), RECIPES)


def kernel(outcome: str, message: str, **more: object) -> Diagnosis:
    return judged(
        **{
            "kernel.k-0.outcome": outcome,
            "kernel.k-0.message": message,
            "kernel.k-0.gpu": "a100",
            "kernel.k-0.place": f"{CHUNK}:739",
            **more,
        }
    )


@pytest.mark.parametrize("outcome", ["aborted", "refuses"])
def test_a_compilers_words_name_the_cause(outcome: str) -> None:
    """The finding of `explain`, at the line that the compiler names; that it failed hangs under it."""
    finding = next(one for one in kernel(outcome, MLIR).findings if one.severity is Severity.ERROR)

    assert finding.id == "triton-bf16-becomes-i16"
    assert (finding.locations[0].file, finding.locations[0].line) == (CHUNK, 362)
    assert finding.certainty == "seen"
    assert [one.id for one in finding.symptoms] == [
        {"aborted": "triton-compiler-bug", "refuses": "triton-kernel-refused"}[outcome]
    ]
    assert explain_text(MLIR, RECIPES, facts()).diagnosis.findings[0].id == finding.id


def test_what_the_facts_found_is_confirmed_and_not_said_twice() -> None:
    """Version and source make it a warning; the compiler's words make the same finding an error."""
    found = kernel(
        "aborted",
        MLIR,
        **{
            "package.triton.version": "2.2.0",
            "package.flash-linear-attention.version": "0.1",
            "source.gsa_states_in_fp32": False,
        },
    )

    assert [(one.id, one.severity) for one in found.findings if one.id.startswith("triton-")] == [
        ("triton-bf16-becomes-i16", Severity.ERROR)
    ]


def test_two_kernels_with_two_causes() -> None:
    """Each kernel's failure hangs under what its own compiler said."""
    found = judged(
        **{
            "kernel.a-0.outcome": "aborted",
            "kernel.a-0.message": MLIR,
            "kernel.b-1.outcome": "aborted",
            "kernel.b-1.message": "error: operand #1 does not dominate this use",
        }
    )
    by_id = {one.id: one for one in found.findings}

    assert by_id["triton-bf16-becomes-i16"].symptoms[0].subjects == ("kernel a-0",)
    assert by_id["triton-compiler-bug"].subjects == ("kernel b-1",)


def test_unknown_words_leave_what_failed() -> None:
    """Where no recipe knows them, that it failed is the finding."""
    assert [one.id for one in kernel("refuses", "IndexError: map::at").findings] == ["triton-kernel-refused"]


def test_an_imports_words() -> None:
    """What an import said is read as well."""
    found = judged(
        **{
            "import.fla.outcome": "failed",
            "import.fla.error_type": "ImportError",
            "import.fla.missing_module": Absent(),
            "import.fla.undefined_symbol": Absent(),
            "import.fla.error": "/usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /x/y.so)",
        }
    )
    (finding,) = found.findings

    assert finding.id == "libstdcxx-too-old"
    assert [one.id for one in finding.symptoms] == ["import-fails"]


def test_a_traced_models_traceback() -> None:
    """A model that raises over something known is told as `explain` tells it, and as met by the run."""
    text = 'Traceback (most recent call last):\n  File "/p/model.py", line 3, in forward\n    x()\n'
    text += "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float "
    text += "key.dtype: float and value.dtype: c10::Half instead.\n"
    found = met(judged(trace__traceback=text), RECIPES)

    assert [one.id for one in found.findings] == ["fp32-promoted-before-kernel"]


@pytest.mark.parametrize("listed", [0, 1])
def test_that_no_gpu_is_there_is_no_trouble_without_one(listed: int) -> None:
    """Words that say only that are a finding on a node that has GPUs."""
    words = "RuntimeError: Found no NVIDIA driver on your system."
    found = judged(**{"trace.traceback": words, "listed.gpu": listed})

    assert [one.id for one in found.findings] == ["no-cuda-device-visible"] * listed


PROMOTION = {
    "package.x-transformers.version": "1.30.1",
    "package.x-transformers.path": "/env/site-packages",
    "promotion.0.call": "Tensor.mul",
    "promotion.0.place": "/env/site-packages/x_transformers/x_transformers.py:480",
    "promotion.0.function": "apply_rotary_pos_emb",
    "promotion.0.verdict": "raises",
    "promotion.0.kind": "mixed operands",
}


def test_a_promotion_inside_a_known_library_is_its_recipes() -> None:
    """A traced run names the release that cures it, and the promotion hangs under that."""
    (finding,) = met(judged(**PROMOTION), RECIPES).findings

    assert (finding.id, finding.severity, finding.certainty) == ("x-transformers-rotary-fp32", Severity.ERROR, "seen")
    assert finding.remedies[0].id == "patch-release"
    assert [one.id for one in finding.symptoms] == ["fp32-promoted-before-kernel"]


@pytest.mark.parametrize(
    "other",
    [
        {"promotion.0.function": "l2norm"},
        {"promotion.0.place": "/home/me/project/x_transformers.py:480"},
        {"package.x-transformers.version": "1.30.2"},
    ],
)
def test_a_promotion_elsewhere_is_not(other: dict[str, object]) -> None:
    """Another function, the project's own file, or a release without the fault: the promotion stands by itself."""
    assert [one.id for one in met(judged(**{**PROMOTION, **other}), RECIPES).findings] == [
        "fp32-promoted-before-kernel"
    ]


def test_words_that_allow_less_than_they_prove_elsewhere_refute_nothing() -> None:
    """A log whose other line proves the recipe is not said to speak against it."""
    known = facts(**{"package.triton.version": "3.6.0", "listed.package": 2})
    told = explain_text(MLIR, RECIPES, known)

    assert told.diagnosis.findings[0].id == "triton-bf16-becomes-i16"
    assert told.refuted == ()
    assert any((one.file, one.line) == (CHUNK, 362) for one in told.diagnosis.findings[0].locations)


def test_an_import_without_a_known_cause_has_its_familys_checks() -> None:
    """The failure stays the finding; the checks of `explain` for these words come before the general advice."""
    words = "RuntimeError: head dimension 999 is not supported by FlashAttention here"
    told = explain_text(words, RECIPES, facts()).diagnosis.findings[0]
    found = judged(
        **{
            "import.fla.outcome": "failed",
            "import.fla.error_type": "ImportError",
            "import.fla.missing_module": Absent(),
            "import.fla.undefined_symbol": Absent(),
            "import.fla.error": words,
        }
    )
    (finding,) = found.findings

    assert told.family
    assert (finding.id, finding.severity) == ("import-fails", Severity.ERROR)
    assert [one.id for one in finding.remedies] == [*(one.id for one in told.remedies), "reinstall-the-package"]
    assert told.why in finding.why


def test_a_traced_models_traceback_without_a_known_cause_has_its_family() -> None:
    """It is told as `explain` tells it; a traceback that is not about the attention stack is not."""
    text = 'Traceback (most recent call last):\n  File "/p/model.py", line 3, in forward\n    x()\n'
    ours = text + "RuntimeError: head dimension 999 is not supported by FlashAttention here"
    told = explain_text(ours, RECIPES, facts()).diagnosis.findings[0]

    assert told.family
    assert [(one.id, one.severity) for one in judged(trace__traceback=ours).findings] == [(told.id, Severity.INFO)]
    assert judged(trace__traceback=text + "KeyError: 'x'").findings == ()
