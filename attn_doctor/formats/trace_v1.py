"""trace/1: reads the answer of patient/trace, which defines the format, into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.model.trace import (
    Arrived,
    AttentionCall,
    Backend,
    Broken,
    Failure,
    Fed,
    Guarded,
    KernelVerdict,
    MathCost,
    Operand,
    Place,
    Promotion,
    Step,
    Trace,
)

Json = Mapping[str, Any]


def read(answer: Json, kernels: Json | None = None) -> Trace:
    """The trace; `kernels` has the results for its Triton launches, when they were compiled.

    Raises KeyError or TypeError when the answer is invalid.
    """
    rules = answer["rules"] or {}
    error = answer["error"] or {}
    counterfactual = answer["counterfactual"] or {}
    return Trace(
        outcome=answer["outcome"],
        verdict=answer["verdict"],
        words=_entry(answer["entry"] or {}),
        rules=rules.get("words", ""),
        gpu=_gpu(rules.get("gpu") or {}),
        gpu_assumed=_assumed(rules.get("gpu") or {}),
        not_simulated=tuple(rules.get("not_simulated") or ()),
        stood_in=tuple(rules.get("stood_in") or ()),
        calls=tuple(_call(one) for one in answer["attention"]),
        promotions=tuple(_promotion(one) for one in answer["promotions"]),
        counterfactual=counterfactual.get("words") or "",
        failure=_failure(answer["failure"], error),
        launches=len(answer["launches"]),
        slow_paths=tuple(answer.get("slow_paths") or ()),
        kernels=tuple(_kernel(one) for one in (kernels or {}).get("verdicts", ())),
        error_kind=error.get("kind") or "",
        error=error.get("words") or "",
        seconds=answer["seconds"],
        traceback=error.get("traceback") or "",
    )


def _assumed(gpu: Json) -> bool:
    """True when the GPU that is not present was not named by the user either."""
    return bool(gpu.get("assumed")) and not gpu.get("named")


def _entry(entry: Json) -> str:
    """The program that was run, in words; a factory that raised before returning anything is called by its name."""
    return entry.get("words") or " ".join(str(entry[key]) for key in ("kind", "target") if entry.get(key))


def _gpu(written: Json) -> str:
    name, capability = written.get("name"), written.get("compute_capability")
    return f"{name} ({capability})" if name and capability else str(name or capability or "")


def place(written: Json | None) -> Place | None:
    """The line of source; None where there is none."""
    if not written or written.get("file") is None:
        return None
    return Place(
        file=written["file"],
        line=written["line"],
        function=written.get("function") or "",
        source=written.get("source") or "",
    )


def _operand(written: Json) -> Operand:
    return Operand(dtype=written["dtype"], name=written["name"], kind=written["kind"])


def _call(written: Json) -> AttentionCall:
    return AttentionCall(
        name=written["name"],
        library=written["library"],
        verdict=written["verdict"],
        stand_in=written["stand_in"] or "",
        needs_gpu=bool(written.get("needs_gpu")),
        error=(written["error"] or {}).get("message") or "",
        place=place(written["at"]),
        modules=tuple(written["modules"]),
        calls=written["calls"],
        head_dim=written["head_dim"],
        autocast=written["autocast"],
        operands=tuple(_arrived(role, one) for role, one in written["operands"].items()),
        broken=tuple(
            Broken(
                words=one["words"],
                effect=one["effect"] or "",
                message=one["message"] or "",
                roles=tuple(one["operands"]),
            )
            for one in written["contract"]
            if not one["kept"]
        ),
        backend=_backend(written.get("backend")),
        written_out=bool(written.get("written_out")),
        guarded=_guarded(written.get("guarded")),
    )


def _guarded(written: Json | None) -> Guarded | None:
    if not written:
        return None
    row = tuple(written["worst_row"] or ())
    return Guarded(**{**written, "worst_row": row, "not_shadowed": written["not_shadowed"] or ""})


def _backend(written: Json | None) -> Backend | None:
    if not written:
        return None
    return Backend(
        taken=written["taken"],
        refused=tuple((name, str(reason)) for name, reason in written["refused"].items()),
        certain=bool(written["certain"]),
        doubts=tuple(written["doubts"]),
        warnings=tuple(written["warnings"]),
        error=written["error"] or "",
        gpu=str(written["gpu"]),
        math=_math(written.get("math")),
    )


def _math(written: Json | None) -> MathCost | None:
    if not written:
        return None
    return MathCost(
        q_length=written["q_length"],
        k_length=written["k_length"],
        score_bytes=written["score_bytes"],
        operand_bytes=written["operand_bytes"],
        ways=tuple((one["backend"], one["words"]) for one in written["ways"]),
    )


def _arrived(role: str, written: Json) -> Arrived:
    return Arrived(
        role=role,
        dtype=written["dtype"],
        shape=tuple(written["shape"] or ()),
        blamed=written["blamed"],
        all_along=written["all_along"],
        promotion=written["promotion"],
        born=tuple(dict.fromkeys(_birth(one) for one in written["born"])),
        path=tuple(
            Step(
                place=place(step),
                call=step["call"],
                module=step["module"] or "",
                dtype_in=step["dtype_in"],
                dtype_out=step["dtype_out"],
                changed=step["changed"],
                operands=tuple(_operand(one) for one in step["operands"]),
            )
            for step in written["path"]
        ),
    )


def _promotion(written: Json) -> Promotion:
    return Promotion(
        id=written["id"],
        place=place(written),
        call=written["call"],
        ops=tuple(written["ops"]),
        module=written["module"] or "",
        kind=written["kind"],
        dtype_in=written["dtype_in"],
        dtype_out=written["dtype_out"],
        operands=tuple(_operand(one) for one in written["operands"]),
        born=tuple(dict.fromkeys(_birth(one) for one in written["born"])),
        roles=tuple(written["roles"]),
        modules=tuple(written["modules"]),
        calls=written["calls"],
        latent=written["latent"],
        cast_back=place(written.get("cast_back")),
    )


def _birth(written: Json) -> str:
    if written["kind"] == "autocast policy":
        return f"autocast's own rule for {written['op']}: {written['dtype']}"
    name = f" {written['name']}" if written["name"] else ""
    began = place(written["at"])
    return f"{written['kind']}{name} ({written['dtype']})" + (f" at {began}" if began else "")


def _failure(written: Json | None, error: Json) -> Failure | None:
    if not written:
        return None
    return Failure(
        call=written["call"],
        place=place(written["at"]),
        module=written["module"] or "",
        operands=tuple(_fed(one) for one in written["operands"]),
        over_dtypes=bool(written["mixed"]) and error.get("kind") == "dtype mismatch",
        message=error.get("message") or "",
    )


def _fed(written: Json) -> Fed:
    promotion = written["promotion"]
    # For an operand outside attention the tracer has no count, number or role.
    uncounted = {"id": 0, "roles": (), "modules": (), "calls": 1, "latent": False}
    return Fed(
        dtype=str(written["dtype"]),
        promotion=_promotion(uncounted | dict(promotion)) if promotion else None,
        born=tuple(dict.fromkeys(_birth(one) for one in written["born"])),
    )


def _kernel(written: Json) -> KernelVerdict:
    limit = written.get("limit")
    return KernelVerdict(
        kernel=written["kernel"],
        gpu=str(written.get("gpu") or ""),
        outcome=written["outcome"],
        message=written.get("message") or written.get("text") or "",
        call_site=written.get("call_site") or "",
        required_bytes=written.get("required"),
        limit_bytes=limit if isinstance(limit, int) else None,
    )
