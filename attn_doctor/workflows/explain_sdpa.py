"""Finds out which backend SDPA chooses for one call, and why not the others."""

from __future__ import annotations

import json
from typing import Any

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import TargetUnusable
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.facts import FactSet
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.kernels import sdpa_spec
from attn_doctor.probe.trace import call_facts
from attn_doctor.quick_dataclasses import asdict, dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import named_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class SdpaRequest:
    """One call, and the GPU for it."""

    call: str
    """`q=2x32x4096x128:bf16 causal train`"""
    python: str | None = None
    as_module: bool = False
    gpu: str | None = None
    """The GPU to predict for; None: torch itself is run on the present one."""
    timeout: float = 60.0


def explain_sdpa(request: SdpaRequest) -> dict[str, Any]:
    """The answer of the patient's code, in the format of `patient/kernels/explain_sdpa.py`.

    Raises BadInput for an invalid call or GPU, TargetUnusable when torch cannot be run.
    """
    gpu = None if request.gpu is None else named_gpu(request.gpu)
    call = sdpa_spec.parse(request.call)
    with scratch() as folder:
        target = examine_target(request.python, as_module=request.as_module, folder=folder, timeout=request.timeout)
        running, answers = target.start_in_patient(
            "kernels.explain_sdpa", {"call": call, "gpu": asdict(gpu) if gpu else None}, folder=folder
        )
        completed = running.wait(request.timeout + 30.0)
        try:
            answer: dict[str, Any] = json.loads((answers / "explanation.json").read_text())
        except (OSError, ValueError):
            last = completed.stderr.strip().splitlines()[-1:]
            raise TargetUnusable(
                f"the question to torch {completed.ended()}",
                about="\n".join([str(target.python), *last]),
                hint="`attn-doctor check` says what is wrong with this environment.",
            ) from None
    if answer.get("error"):
        raise _cannot(answer["error"], target, asked_here=gpu is None)
    answer["warnings"] = [*answer["warnings"], *_known_to_be_wrong(call, answer)]
    return answer


def _known_to_be_wrong(call: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """What recipes say of such a call with this torch on this GPU, beside what its backend is known for."""
    form = call_facts.of_explained(call, answer)
    how = "--explain-sdpa"
    about = call_facts.facts([form], how=how, capability=answer.get("compute_capability"))
    notes = FactNotes()
    notes.known("torch.version", str(answer["torch"]), how)
    recipes = [one for one in shelf.shelf(()) if one.for_each == "call"]
    found = judge(derive(FactSet([*notes.facts(), *about])), recipes).findings
    return [f"{one.title} ({one.id})" for one in found]


def _cannot(error: str, target: Target, *, asked_here: bool) -> TargetUnusable:
    hint = "Name a GPU to have it predicted: --gpu h100." if asked_here else "`attn-doctor check` says what is wrong."
    return TargetUnusable(f"torch cannot be asked: {error}", about=str(target.python), hint=hint)
