"""attn-doctor/stack/v1: the answer to `plan`, as JSON. Keys may be added later, never renamed or removed."""

from __future__ import annotations

from typing import Any

from attn_doctor.machine.printable import json_text
from attn_doctor.model.stack import Alternative, PlannedNode, PlannedRelease, StackAnswer, StackPlan

SCHEMA = "attn-doctor/stack/v1"


def dumps(answer: StackAnswer) -> str:
    """The answer as JSON text."""
    return json_text(to_json(answer), indent=2) + "\n"


def to_json(answer: StackAnswer) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "schema": SCHEMA,
        "doctor_version": answer.doctor_version,
        "exit_status": answer.exit_status,
        "wants": list(answer.wants),
        "node": _node(answer.node),
        "plans": [_plan(one) for one in answer.plans],
        "conflicts": [
            {"wants": list(one.wants), "words": one.words, "sources": list(one.sources)} for one in answer.clashes
        ],
        "alternatives": [_alternative(one) for one in answer.alternatives],
        "dead_end": answer.dead_end or None,
        "channels": [{"channel": one.channel.value, "asked": one.asked, "words": one.words} for one in answer.channels],
        "notes": list(answer.notes),
        "bytes_downloaded": answer.downloaded,
        **({"cohort": answer.cohort} if answer.cohort else {}),
        **({"cohorts": [to_json(one) for one in answer.cohorts]} if answer.cohorts else {}),
    }


def _node(node: PlannedNode) -> dict[str, Any]:
    return {
        "gpu": node.gpu or None,
        "compute_capability": node.capability or None,
        "compute_capabilities": list(node.capabilities),
        "amd_architecture": node.amd or None,
        "driver": node.driver or None,
        "python": node.python,
        "glibc": node.glibc,
        "machine": node.machine,
        "assumed": list(node.assumed),
    }


def _plan(plan: StackPlan) -> dict[str, Any]:
    return {
        "torch": plan.torch,
        "build": plan.build,
        "index": plan.index or None,
        "requirements": list(plan.requirements),
        "releases": [_release(one) for one in plan.releases],
        "reason": plan.reason,
        "proven": plan.proven,
        "resolved_by": plan.resolved or None,
        "notes": list(plan.notes),
    }


def _release(one: PlannedRelease) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version or None,
        "wanted": one.wanted,
        "channel": one.channel.value,
        "evidence": one.evidence.value,
        "proof": one.proof or None,
        "url": one.url or None,
        "file": one.file or None,
        "size": one.size,
        "sha256": one.sha256 or None,
        "yanked": one.yanked or None,
    }


def _alternative(one: Alternative) -> dict[str, Any]:
    return {
        "title": one.title,
        "gives_up": one.gives_up,
        "needs": one.needs or None,
        "ends_conflict": list(one.ends) if one.ends is not None else None,
        "command": one.commands[-1] if one.commands else None,
        "commands": list(one.commands),
        "plan": _plan(one.plan) if one.plan is not None else None,
    }
