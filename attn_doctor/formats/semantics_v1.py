"""semantics/1: reads the answer of patient/semantics, which defines the format, into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.formats.trace_v1 import place
from attn_doctor.model.semantics import Check, Culprit, Semantics

Json = Mapping[str, Any]


def read(answer: Json) -> Semantics:
    """The checks. Raises KeyError or TypeError when the answer is invalid."""
    error = answer["error"] or {}
    return Semantics(
        subject=answer["subject"] or "",
        implementation=answer["implementation"] or "",
        cut=answer["cut"],
        versions=tuple(answer["versions"].items()),
        checks=tuple(_check(one) for one in answer["checks"]),
        error_kind=error.get("kind") or "",
        error=error.get("message") or "",
        seconds=answer["seconds"],
    )


def _check(written: Json) -> Check:
    mask = written["mask"] or {}
    return Check(
        name=written["name"],
        form=written["form"] or "",
        outcome=written["outcome"],
        words=written["words"],
        whose=written["whose"] or "",
        culprits=tuple(
            Culprit(
                module=one["module"],
                type=one["type"],
                layer=one["layer"],
                at=place(one["at"]),
                inside=place(one["inside"]),
            )
            for one in written["culprits"]
        ),
        mask=mask.get("words") or "",
        mask_place=place(mask.get("at")),
        safe=tuple(written["safe"]),
    )
