"""Triton kernels that were compiled for a GPU that is not there (inside/kernels/compilation.py): read, and as facts.

Nothing of this ran. Each backend has kernels of its own, also where two launch the same function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_doctor.model.facts import Fact
from attn_doctor.probe.noting import Notes

COMPILES = "compiles"
NOT_LOOKED = "could not look"
_TELLING = re.compile(r"error|assert|not supported|unsupported|out of resource", re.IGNORECASE)


def collate(plan: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], ended: str) -> dict[str, Any] | None:
    """What came of it, or None where no GPU was named. ended: how the whole process did."""
    if "to_compile" not in plan:
        return None
    done = {line["compiled"]["backend"]: line["compiled"] for line in lines if "compiled" in line}
    begun = {line["begun"] for line in lines if "begun" in line}
    titles = {one["name"]: one["title"] for one in plan["backends"]}
    backends = []
    kernels: list[dict[str, Any]] = []
    for name in plan["to_compile"]["backends"]:
        missed = f"the examination {ended} while it was compiled" if name in begun else "the time was up"
        told = done.get(name, {"error": missed, "kernels": []})
        own = [{"backend": name, **one} for one in told["kernels"]]
        kernels += own
        backends.append(
            {
                "name": name,
                "title": titles[name],
                "kernels": len(own),
                "compile": sum(one["outcome"] == COMPILES for one in own),
                "not_reached": sum(one["outcome"] == NOT_LOOKED for one in own),
                "error": told["error"],
            }
        )
    return {
        "gpu": plan["gpu"],
        "why_not": plan["to_compile"]["why_not"],
        "backends": backends,
        "not_looked_at": [titles[name] for name in plan["to_compile"]["not_looked_at"]],
        "kernels": kernels,
    }


def facts(compiled: Mapping[str, Any] | None) -> tuple[Fact, ...]:
    """Facts of every kernel; none where there was nothing to compile."""
    if compiled is None or not compiled["backends"]:
        return ()
    notes = Notes()
    how = f"compiled for {gpu_words(compiled)}, not run (--kernels)"
    open_because = gaps(compiled)
    if open_because:
        notes.unknown("listed.kernel", how, open_because)
    else:
        notes.known("listed.kernel", len(compiled["kernels"]), how)
    for number, one in enumerate(compiled["kernels"]):
        if one["outcome"] == NOT_LOOKED:
            continue  # said once, in listed.kernel: forty kernels that time did not reach are one open question
        own = f"kernel.{one['backend']}-{one['kernel']}-{number}."
        notes.known(own + "outcome", one["outcome"], how)
        notes.known(own + "gpu", gpu_words(compiled), how)
        notes.known_or_absent(own + "message", one["message"] or None, how)
        notes.known_or_absent(own + "place", one["place"] or None, how)
        notes.known_or_absent(own + "required_bytes", one["required_bytes"], how)
        notes.known_or_absent(own + "limit_bytes", one["limit_bytes"], how)
    return notes.facts()


def gaps(compiled: Mapping[str, Any]) -> str:
    """What was to be compiled and was not; empty when everything was."""
    words = [f"{one['title']}: {one['error']}" for one in compiled["backends"] if one["error"]]
    words += [
        f"{one['title']}: {one['not_reached']} of {one['kernels']} kernels could not be looked at"
        for one in compiled["backends"]
        if one["not_reached"]
    ]
    return "; ".join(words)


def gpu_words(compiled: Mapping[str, Any]) -> str:
    return str(compiled["gpu"].get("name") or compiled["gpu"]["compute_capability"])


def compiler_words(one: Mapping[str, Any]) -> str:
    """One line of what the compiler said; the whole is in `message`."""
    if one["outcome"] == "exceeds shared memory" and one["required_bytes"]:
        return f"{one['required_bytes']} bytes needed, {one['limit_bytes']} there"
    lines = [line.strip() for line in f"{one['cause']}\n{one['message']}".splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")[:300]
