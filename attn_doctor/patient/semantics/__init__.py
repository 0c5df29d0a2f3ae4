"""What attention computes: which token reaches which, found by changing tokens of a small model and comparing outputs.

Imports nothing itself. `run.examine(request)` answers one request. small.py cuts a config down; subject.py calls the
model; compare.py says how far two outputs differ; checks.py and packing.py make the comparisons; culprit.py and
watched_ops.py find the module and line where tokens mix.

Request
    kind        "factory" | "hf"
    target, args, kwargs, attn, trust_remote_code, cwd, sys_path    as in ../trace/__init__.py
    device      "cpu" | "cuda"
    budget      seconds after which no further check is begun (60)

Answer (`semantics.json`), every key always there
    schema      "semantics/1"
    subject     what was examined, in words; None when nothing was
    cut         what was made smaller, in words; empty when nothing was
    implementation   the attention implementation of the config; None where there is none
    versions    {distribution: version}
    checks      [check]
    error       None or {kind, message, traceback}; kind as in ../trace/__init__.py
    seconds

check = {
    name        "causality" | "window" | "padding-left" | "padding-right" | "padded-equals-unpadded" | "batch-rows" |
                "cache" | "packing" | "gradient",
    form        how the documents were told apart, for "packing" and "gradient"; else None,
    outcome     "holds" | "broken" | "refused" (the call raises) | "not applicable" | "could not look",
    words       one sentence,
    difference  largest difference of outputs, in their standard deviations; None where nothing was compared,
    whose       "model" | "call" | None: who breaks the library's contract,
    culprits    [culprit], the modules where it begins; the others were tried with these replaced,
    mask        None or {words, at: place}: the mask that the first of them was given,
    safe        call forms that kept the documents apart here, for "packing"}
culprit = {module: its path, type: its class, layer: number or None, at: place, inside: place}
    at: the line of its own forward; inside: the innermost line
place = {file, line, function, source} or None
"""

from __future__ import annotations

from typing import Any, Dict

SCHEMA = "semantics/1"
HOLDS, BROKEN, REFUSED = "holds", "broken", "refused"
NOT_APPLICABLE, COULD_NOT_LOOK = "not applicable", "could not look"


def unanswered() -> Dict[str, Any]:
    """An answer in which everything is unknown."""
    return {
        "schema": SCHEMA,
        "subject": None,
        "cut": "",
        "implementation": None,
        "versions": {},
        "checks": [],
        "error": None,
        "seconds": None,
    }
