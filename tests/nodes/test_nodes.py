"""Recorded nodes, judged by the shelf as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.formats import report_v1
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import named_gpu

NODES = Path(__file__).parent


def recorded(name: str) -> FactSet:
    return report_v1.loads((NODES / name).read_text(), about=name).facts


def judged(facts: FactSet) -> Diagnosis:
    return judge(derive(facts), shelf.bundled())


def ids(diagnosis: Diagnosis, severity: Severity | None = None) -> set[str]:
    return {one.id for one in diagnosis.findings if severity is None or one.severity is severity}


@pytest.mark.parametrize("file", sorted(path.name for path in NODES.glob("*.json")))
def test_nothing_stays_open_on_a_node_that_answered(file: str) -> None:
    """A node whose every probe answered leaves no question open, but those about facts newer than its report."""
    facts = recorded(file)
    known = {str(fact.name) for fact in facts.values()}
    asked = [one for one in judged(facts).open_questions if {str(fact.name) for fact in one.undecided} & known]

    assert asked == []


def test_a_stock_h200_is_fit() -> None:
    """Stock torch on a stock Hopper node: no error, only the latent hazards of cuDNN's attention."""
    diagnosis = judged(recorded("h200-torch2.11.json"))

    assert ids(diagnosis, Severity.ERROR) == set()
    assert ids(diagnosis, Severity.WARNING) == {"sdpa-cudnn-float-mask", "sdpa-cudnn-nan-gradient"}


def test_the_same_node_with_linear_attention() -> None:
    """With flash-linear-attention installed, its Triton's Hopper trouble is told."""
    facts = assume(recorded("h200-torch2.11.json"), ["package.flash-linear-attention.version=0.4.2"])

    assert "triton-hopper-wrong-gradients" in ids(judged(facts))


@pytest.mark.parametrize(("gpu", "found"), [("t4", "bf16-unsupported-device"), ("v100", "torch-lacks-gpu-arch")])
def test_the_same_stack_on_an_older_gpu(gpu: str, found: str) -> None:
    """What would be wrong on a GPU that is not there."""
    assert found in ids(judged(assume_gpu(recorded("h200-torch2.11.json"), named_gpu(gpu))))


def test_flash_attention_2_on_a_t4_and_on_blackwell() -> None:
    """The same message of flash-attn has opposite causes; the compute capability decides."""
    node = assume(recorded("h200-torch2.11.json"), ["package.flash-attn.version=2.6.3"])

    old = ids(judged(assume_gpu(node, named_gpu("t4"))))
    new = ids(judged(assume_gpu(node, named_gpu("b200"))))
    assert "gpu-before-ampere" in old
    assert "flash-attn-too-old-for-gpu" not in old
    assert "flash-attn-too-old-for-gpu" in new
    assert "gpu-before-ampere" not in new


def test_an_older_driver() -> None:
    """CUDA 13 needs a driver of 580."""
    facts = assume(recorded("h200-torch2.11.json"), ["driver.version=550.54.15", "torch.cuda_available=no"])

    assert "driver-too-old" in ids(judged(facts), Severity.ERROR)
