"""A traced run as a report, made by hand: q and k promoted by a norm, q again by a scale, and refused by the kernel."""

from __future__ import annotations

from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.findings import Diagnosis, Finding, Location, Remedy, Safety, Severity
from attn_doctor.model.remedies import Advise, EditSource, ProposedAction
from attn_doctor.model.report import Examined, Report
from attn_doctor.model.trace import Arrived, AttentionCall, Operand, Place, Promotion, Step, Trace

FILE = "/code/project/model.py"
SOURCES = {
    14: "q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).unbind(2)",
    16: "q = F.normalize(q, dim=-1) * self.scale_mul",
    17: "k = F.normalize(k, dim=-1)",
    18: "return flash_attn_func(q, k, v).flatten(2)",
}


def place(line: int, file: str = FILE) -> Place:
    return Place(file=file, line=line, function="forward", source=SOURCES[line])


def step(line: int, call: str, before: str, after: str) -> Step:
    changed = before != after
    return Step(
        place=place(line), call=call, module="blocks.0", dtype_in=before, dtype_out=after, changed=changed, operands=()
    )


def _arrived(role: str, promotion: int | None, *steps: Step) -> Arrived:
    dtype = steps[-1].dtype_out
    return Arrived(
        role=role, dtype=dtype, shape=(2, 16, 4, 16), blamed=dtype == "float32", all_along=False, promotion=promotion,
        path=(step(14, "F.linear", "float32", "float16"), step(14, "Tensor.unbind", "float16", "float16"), *steps),
    )  # fmt: skip


def _promotion(number: int, line: int, call: str, role: str, born: str, *, latent: bool = False) -> Promotion:
    return Promotion(
        id=number, place=place(line), call=call, ops=(), module="blocks.0", kind="mixed operands",
        dtype_in="float16", dtype_out="float32", operands=(Operand(dtype="float32", name=None, kind="computed"),),
        born=(born,), roles=(role,), modules=("blocks.0",), calls=1, latent=latent,
    )  # fmt: skip


NORM = "autocast's own rule for linalg_vector_norm: float32"
TRACE = Trace(
    outcome="stopped", verdict="raises", words="factory model.py:build",
    rules="no GPU: CUDA's autocast rules on real CPU tensors", gpu="H100 (9.0)", gpu_assumed=True, not_simulated=(),
    stood_in=("flash_attn is not installed here: its calls were stood in for, as version 2.8.3 takes them",),
    calls=(
        AttentionCall(
            name="flash_attn_func", library="flash_attn", verdict="raises", stand_in="flash_attn 2.8.3 stand-in",
            needs_gpu=False, error="FlashAttention only support fp16 and bf16 data type", place=place(18),
            modules=("blocks.0", "blocks.1", "blocks.2"), calls=3, head_dim=16, autocast="float16", broken=(),
            operands=(
                _arrived(
                    "q", 0, step(16, "F.normalize", "float16", "float32"),
                    step(16, "Tensor.mul", "float32", "float32"),
                ),
                _arrived("k", 1, step(17, "F.normalize", "float16", "float32")),
                _arrived("v", None, step(14, "Tensor.unbind", "float16", "float16")),
            ),
        ),
    ),
    promotions=(
        _promotion(0, 16, "F.normalize", "q", NORM),
        _promotion(1, 17, "F.normalize", "k", NORM),
        _promotion(2, 16, "Tensor.mul", "q", "parameter blocks.0.scale_mul (float32)", latent=True),
    ),
    counterfactual="clean once each of these 3 operations is cast back", failure=None, launches=0, kernels=(),
    error_kind="", error="", seconds=1.0,
)  # fmt: skip

_CAST = Remedy(
    id="cast-back",
    title="Cast q and k back to the dtype of v before the call",
    safety=Safety.UNSAFE,
    why_this_safety="The model's source changes.",
    actions=(
        ProposedAction(action=EditSource(edit="cast-before-kernel", where=f"{FILE}:16")),
        ProposedAction(action=Advise(text="Write q, k = q.to(v.dtype), k.to(v.dtype) on the line before.")),
    ),
)


def finding(number: int, line: int, title: str) -> Finding:
    return Finding(
        id="fp32-promoted-before-kernel", severity=Severity.ERROR, title=title, why="torch promotes.",
        certainty="seen", library="attention", subjects=(f"promotion {number}",), remedies=(_CAST,),
        locations=(Location(file=FILE, line=line),), references=("https://example.org/issue",),
    )  # fmt: skip


def _facts(promotion: Promotion) -> list[Fact]:
    own = f"promotion.{promotion.id}."
    values = {
        "place": str(promotion.place), "source": promotion.place.source if promotion.place else "",
        "call": promotion.call, "dtype_in": promotion.dtype_in, "dtype_out": promotion.dtype_out,
        "roles": promotion.roles, "born": "; ".join(promotion.born),
    }  # fmt: skip
    return [Fact(name=FactName.parse(own + name), state=Known(value), how="traced") for name, value in values.items()]


REPORT = Report(
    command="trace",
    doctor_version="0.1.0",
    created="2026-11-22T00:00:00+00:00",
    examined=Examined(python="/env/bin/python", version="3.11.7", environment="venv", because="--python"),
    quick=False,
    assumed=(),
    diagnosis=Diagnosis(
        findings=(
            finding(0, 16, "F.normalize turned q from float16 into float32 before the attention kernel"),
            finding(1, 17, "F.normalize turned k from float16 into float32 before the attention kernel"),
            finding(2, 16, "Tensor.mul turned q from float16 into float32 before the attention kernel"),
        )
    ),
    exit_status=1,
    facts=FactSet([one for promotion in TRACE.promotions for one in _facts(promotion)]),
    trace=TRACE,
)
