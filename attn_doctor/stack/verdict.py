"""Judges a planned set of releases by the recipes, as `check` would judge it once it is installed."""

from __future__ import annotations

from collections.abc import Sequence

from attn_doctor.diagnose.judge import judge
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.install_request import BOUND_TO_TORCH
from attn_doctor.model.stack import PlannedNode, PlannedRelease
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.stack.candidates import Spot
from attn_doctor.stack.foreseen import ForeseenRelease, foreseen_facts


def faults(
    releases: Sequence[PlannedRelease], node: PlannedNode, spot: Spot, recipes: Sequence[Recipe]
) -> dict[str, str]:
    """Canonical name of the release at fault -> the words of the finding; empty for a sound set."""
    known = [ForeseenRelease(name=one.name, version=one.version) for one in releases if one.version]
    found: dict[str, str] = {}
    for gpu in node.capabilities or ("",):
        facts = foreseen_facts(known, replace(node, capability=gpu, more=()), cuda=spot.cuda)
        for finding in judge(facts, recipes).findings:
            name = at_fault(finding, releases) if finding.severity is not Severity.INFO else ""
            if name:
                found.setdefault(name, f"{finding.id}: {finding.title}")
    return found


def at_fault(finding: Finding, releases: Sequence[PlannedRelease]) -> str:
    """The release that another one could take the place of: what the wants bring first (another triton comes with
    another torch), torch itself last. Empty when the finding is about none of them."""
    named = {fact.name.subject for fact in finding.evidence if fact.name.kind == "package"}
    named |= {fact.name.kind for fact in finding.evidence if fact.name.kind in ("torch", "triton")}
    ordered = sorted(
        (one for one in releases if one.name in named),
        key=lambda one: (one.name == "torch", one.wanted, one.name not in BOUND_TO_TORCH),
    )
    return ordered[0].name if ordered else ""
