"""What Triton's compiler really says is explained right: kernels compiled for GPUs that are not there."""

import pytest

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from tests.patient.simulate.test_canary import canary
from tests.patient.simulate.test_triton_verdicts import KERNELS

pytestmark = pytest.mark.triton
RECIPES = shelf.bundled()

LAUNCHES = """
with triton_record.record() as recording:
    launch(32, 32, 32, right=torch.float32)
    launch(128, 128, 256)
answer(verdicts([gpu("8.9")]))
"""


def first(text, *assumptions):
    """The cause that stands first, and how sure it is."""
    finding = explain_text(text, RECIPES, assume(FactSet(), assumptions)).diagnosis.findings[0]
    return finding.id, finding.certainty


def test_a_mixed_dot_and_shared_memory(triton, tmp_path):
    """Both are proven by the text alone; the limit in the second tells the GPU."""
    mixed, large = (
        f"{one['exception']}: {one['text']}"
        for verdict in triton.run(tmp_path, KERNELS + LAUNCHES)
        for one in verdict["configurations"]
    )

    assert first(mixed) == ("triton-operand-dtype", "seen")
    assert first(large) == ("triton-shared-memory-exceeded", "seen")
    told = explain_text(large, RECIPES, FactSet()).facts
    assert told.value("gpu.0.shared_memory_bytes") == 101376


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1"])
def test_bf16_becomes_i16(triton_beside, tmp_path, version):
    """An old Triton's last words before it aborts."""
    answer = canary(tmp_path, triton_beside(version).folder)

    assert answer["outcome"] == "aborted"
    assert first(answer["message"], f"package.triton.version={version}") == ("triton-bf16-becomes-i16", "seen")
