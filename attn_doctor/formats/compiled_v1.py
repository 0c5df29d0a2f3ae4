"""compiled/1: reads the answer of patient/compiled, which defines the format, into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.formats.trace_v1 import place
from attn_doctor.model.compiled_regions import CompiledRegions, Layout, Region

Json = Mapping[str, Any]


def read(answer: Json) -> CompiledRegions:
    """The regions. Raises KeyError or TypeError when the answer is invalid."""
    error = answer["error"] or {}
    return CompiledRegions(
        subject=answer["subject"] or "",
        implementation=answer["implementation"] or "",
        cut=answer["cut"],
        versions=tuple(answer["versions"].items()),
        regions=tuple(_region(one) for one in answer["regions"]),
        error_kind=error.get("kind") or "",
        error=error.get("message") or "",
        seconds=answer["seconds"],
    )


def _region(written: Json) -> Region:
    return Region(
        module=written["module"],
        type=written["type"],
        layer=written["layer"],
        at=place(written["at"]),
        same=tuple(written["same"]),
        outcome=written["outcome"],
        layouts=tuple(
            Layout(name=one["name"], outcome=one["outcome"], words=one["words"]) for one in written["layouts"]
        ),
        stage=written["stage"] or "",
        fused=written["fused"],
        script=written["script"] or "",
        shown=written["shown"],
        graphs=written["graphs"],
        breaks=tuple((one["reason"], place(one["at"])) for one in written["breaks"]),
        recompilations=tuple(written["recompilations"]),
    )
