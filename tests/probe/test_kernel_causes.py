"""What trials say hangs under the cause that is known: each recipe about kernels gets its facts from them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.probe.kernels import kernel_facts
from attn_doctor.probe.trace import call_facts
from attn_doctor.recipes import shelf
from tests.nodes.test_nodes import recorded
from tests.probe.test_kernels import cell, trials

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("h200-kernels.json").read_text())
NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


def refused(reason: str, **more: Any) -> dict[str, Any]:
    return cell(backend="flash-attn-2", outcome="refused", reason=reason, **more)


def judged(*cells: Mapping[str, Any], assumed: tuple[str, ...] = ()) -> dict[str, Finding]:
    answer = copy.deepcopy(RECORDED)
    answer["cells"] = [*cells]
    node = derive(assume(recorded("h200-torch2.11.json"), assumed))
    told = trials(answer)
    calls = call_facts.facts(
        kernel_facts.wrong_calls(told), how="here", capability=node.text("gpu.0.compute_capability")
    )
    facts = derive(FactSet([*node.values(), *kernel_facts.facts(told), *calls]))
    return {one.id: one for one in judge(facts, shelf.bundled()).findings}


def below(finding: Finding) -> set[str]:
    return {one.id for one in finding.symptoms}


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: This flash attention build does not support headdim 96.",
        "RuntimeError: FlashAttention forward only supports head dimension at most 64",
        "ValueError: Head size 96 is not supported by PagedAttention.",
        "RuntimeError: head_size should be a multiple of 8",
    ],
)
def test_a_refused_head_dimension(words: str) -> None:
    """The kernel says that it is the head dimension: one finding with the refusals below it, a warning."""
    found = judged(refused(words, head_dim=96), refused(words, head_dim=192, form="causal"), cell())
    one = found["head-dim-limit"]

    assert below(one) == {"kernel-refused"}
    assert one.severity is Severity.WARNING
    assert one.certainty == "seen"
    assert "kernel-refused" not in found


def test_other_refusals_are_no_head_dimension() -> None:
    """A refusal in other words stands by itself, beside one over the head dimension of the same form."""
    found = judged(
        refused("RuntimeError: head_size should be a multiple of 8", head_dim=96), refused("RuntimeError: no softcap")
    )

    assert below(found["head-dim-limit"]) == {"kernel-refused"}
    assert "no softcap" in found["kernel-refused"].what


def test_no_code_for_this_gpu() -> None:
    """What the file lacks and what the kernel says are one finding: an error, since nothing of it can run here."""
    extension = ("extension.flash_attn_2_cuda.package=flash-attn", "extension.flash_attn_2_cuda.gpu_code=sm_80")
    found = judged(refused(NO_CODE), assumed=extension)

    assert below(found["extension-lacks-gpu-arch"]) == {"kernel-refused"}
    assert found["extension-lacks-gpu-arch"].severity is Severity.ERROR
    assert judged(refused(NO_CODE))["kernel-refused"].severity is Severity.ERROR


def test_wrong_gradients_of_the_gated_delta_rule() -> None:
    """Under the Triton that is known for them."""
    stack = ("package.triton.version=3.6.0", "package.fla-core.version=0.4.2")
    wrong = cell(backend="fla-gated-delta-rule", form="causal", outcome="wrong", troubles=["error"])
    one = judged(wrong, assumed=stack)["triton-hopper-wrong-gradients"]

    assert below(one) == {"kernel-wrong-result"}
    assert one.certainty == "seen"


def test_the_float32_mask() -> None:
    """Under the torch that is known for it."""
    wrong = [cell(backend=name, form="fp32-mask", outcome="wrong", troubles=["error"]) for name in ("sdpa-cudnn",)]

    assert below(judged(*wrong)["sdpa-cudnn-float-mask"]) == {"kernel-wrong-result"}


def test_without_a_known_cause_it_stands_by_itself() -> None:
    """Another Triton: what was seen is told as it was seen."""
    stack = ("package.triton.version=3.7.1", "package.fla-core.version=0.4.2")
    wrong = cell(backend="fla-gated-delta-rule", form="causal", outcome="wrong", troubles=["error"])
    found = judged(wrong, assumed=stack)

    assert "triton-hopper-wrong-gradients" not in found
    assert "kernel-wrong-result" in found


LONG, WIDE = [1, 1, 66048, 64], [2, 8, 512, 256]


def _called(**more: Any) -> dict[str, Any]:
    """The form of a trial's call, as the patient tells it of a wrong one."""
    shape = [2, 8, 512, 64]
    form: dict[str, Any] = {
        "name": "scaled_dot_product_attention", "library": "torch", "by_heads": True, "trains": True,
        "dtypes": {"q": "bfloat16", "k": "bfloat16", "v": "bfloat16"}, "strides": {},
        "shapes": {"q": shape, "k": shape, "v": shape}, "flags": {"causal": False, "documents": None},
    }  # fmt: skip
    return {**form, **more}


def _masked(**more: Any) -> dict[str, Any]:
    form = _called(backend="cudnn", **more)
    form["dtypes"] = {**form["dtypes"], "mask": "bool"}
    form["shapes"] = {**form["shapes"], "mask": [1, 1, 512, 512]}
    return form


@pytest.mark.parametrize(
    ("backend", "form", "situation", "call", "assumed", "cause"),
    [
        ("sdpa-cudnn", "bool-mask", "dead-rows", _masked(), (), "sdpa-cudnn-rows-without-key"),
        # The same form, and rows that all see keys: another fault, whose cause is not known.
        ("sdpa-cudnn", "bool-mask", None, _masked(), (), None),
        (
            "sdpa-efficient",
            "bool-mask",
            "long-mask",
            _called(
                backend="efficient",
                dtypes={"q": "bfloat16", "k": "bfloat16", "v": "bfloat16", "mask": "bool"},
                shapes={"q": LONG, "k": LONG, "v": LONG, "mask": [1, 1, 66048, 66048]},
            ),
            (),
            "sdpa-efficient-long-mask",
        ),
        (
            "torch-varlen",
            "varlen",
            "tail",
            _called(name="torch-varlen", flags={"causal": False, "documents": 3}),
            (),
            "varlen-tokens-behind-last-sequence",
        ),
        (
            "torch-varlen",
            "varlen",
            "fused",
            _called(name="torch-varlen", flags={"causal": False, "documents": 3}),
            (),
            None,
        ),
        (
            "flash-attn-4",
            "causal",
            None,
            _called(library="flash_attn", shapes={"q": WIDE, "k": WIDE, "v": WIDE}),
            ("package.flash-attn-4.version=4.0.0b11", "gpu.compute_capability=10.0"),
            "flash-attn-4-wide-heads-gradient",
        ),
    ],
)
def test_a_wrong_call_names_the_silent_error(
    backend: str, form: str, situation: str | None, call: dict[str, Any], assumed: tuple[str, ...], cause: str | None
) -> None:
    """By the form of the call that came out wrong, and by its values where these decide."""
    wrong = cell(backend=backend, form=form, outcome="wrong", troubles=["error"], call=call)
    if situation is not None:
        wrong |= {"situation": situation, "situation_words": situation, "rare": True}
    found = judged(wrong, assumed=assumed)

    if cause is None:
        assert "kernel-wrong-result" in found
    else:
        assert below(found[cause]) == {"kernel-wrong-result"}
