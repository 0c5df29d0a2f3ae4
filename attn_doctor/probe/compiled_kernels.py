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
_MOST_CALLS = 6
_SLUG = re.compile(r"\W+")
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
        entry = {
            "name": name,
            "title": titles[name],
            "kernels": len(own),
            "compile": sum(one["outcome"] == COMPILES for one in own),
            "not_reached": sum(one["outcome"] == NOT_LOOKED for one in own),
            "error": told["error"],
        }
        backends.append({**entry, "nothing": told["nothing"]} if told.get("nothing") else entry)
    return {
        "gpu": plan["gpu"],
        "why_not": plan["to_compile"]["why_not"],
        "backends": backends,
        "kernels": kernels,
    }


def facts(compiled: Mapping[str, Any] | None) -> tuple[Fact, ...]:
    """Facts of each kernel of a library's layer, and elsewhere of each sort of trouble."""
    if compiled is None or not compiled["backends"]:
        return ()
    notes = Notes()
    how = f"compiled for {gpu_words(compiled)}, not run (--kernels)"
    layers = [one for one in compiled["backends"] if not _by_calls(one["name"])]
    open_because = gaps(layers)
    if open_because:
        notes.unknown("listed.kernel", how, open_because)
    else:
        notes.known("listed.kernel", sum(not _by_calls(one["backend"]) for one in compiled["kernels"]), how)
    for number, one in enumerate(compiled["kernels"]):
        if one["outcome"] == NOT_LOOKED:
            continue  # said once, in listed.kernel: forty kernels that time did not reach are one open question
        if _by_calls(one["backend"]):
            continue  # below: a model may never make that call
        own = f"kernel.{one['backend']}-{one['kernel']}-{number}."
        notes.known(own + "outcome", one["outcome"], how)
        notes.known(own + "gpu", gpu_words(compiled), how)
        notes.known_or_absent(own + "message", one["message"] or None, how)
        notes.known_or_absent(own + "place", one["place"] or None, how)
        notes.known_or_absent(own + "required_bytes", one["required_bytes"], how)
        notes.known_or_absent(own + "limit_bytes", one["limit_bytes"], how)
    _of_calls(compiled, notes, how)
    return notes.facts()


def _of_calls(compiled: Mapping[str, Any], notes: Notes, how: str) -> None:
    """Trouble with calls that were made up over dtypes, head dimensions and forms: one of a sort for each backend."""
    titles = {one["name"]: one["title"] for one in compiled["backends"]}
    sorts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in compiled["kernels"]:
        if _by_calls(one["backend"]) and one["outcome"] not in (COMPILES, NOT_LOOKED):
            sorts.setdefault((one["backend"], one["outcome"]), []).append(one)
    open_because = gaps([one for one in compiled["backends"] if _by_calls(one["name"])])
    if open_because:
        notes.unknown("listed.compiled", how, open_because)
    else:
        notes.known("listed.compiled", len(sorts), how)
    for (backend, outcome), which in sorts.items():
        own = f"compiled.{_SLUG.sub('-', backend)}-{outcome.replace(' ', '-')}."
        worst = max(which, key=lambda one: one["required_bytes"] or 0)
        calls = list(dict.fromkeys(str(one["call"]) for one in which))
        more = f"; and {len(calls) - _MOST_CALLS} more" if len(calls) > _MOST_CALLS else ""
        mended = list(dict.fromkeys(str(one["mended_by"]) for one in which if one.get("mended_by")))
        notes.known(own + "outcome", outcome, how)
        notes.known(own + "title", titles[backend], how)
        notes.known(own + "gpu", gpu_words(compiled), how)
        notes.known(own + "calls", "; ".join(calls[:_MOST_CALLS]) + more, how)
        notes.known_or_absent(own + "message", compiler_words(worst) or None, how)
        notes.known_or_absent(own + "place", worst.get("place") or None, how)
        notes.known_or_absent(own + "mended_by", " or ".join(mended) or None, how)


def _by_calls(backend: str) -> bool:
    """Are its calls made up, as FlexAttention's and those of a person's own function are?"""
    return backend == "flex" or ":" in backend


def gaps(backends: Sequence[Mapping[str, Any]]) -> str:
    """What of these was to be compiled and was not; empty when everything was."""
    words = [f"{one['title']}: {one['error']}" for one in backends if one["error"]]
    words += [
        f"{one['title']}: {one['not_reached']} of {one['kernels']} kernels could not be looked at"
        for one in backends
        if one["not_reached"]
    ]
    return "; ".join(words)


def gpu_words(compiled: Mapping[str, Any]) -> str:
    capability = str(compiled["gpu"]["compute_capability"])
    name = str(compiled["gpu"].get("name") or capability)
    return f"compute capability {capability}" if name == capability else name


def compiler_words(one: Mapping[str, Any]) -> str:
    """One line of what the compiler said; the whole is in `message`."""
    if one["outcome"] == "exceeds shared memory" and one["required_bytes"]:
        return f"{one['required_bytes']} bytes needed, {one['limit_bytes']} there"
    lines = [line.strip() for line in f"{one['cause']}\n{one['message']}".splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")[:300]
