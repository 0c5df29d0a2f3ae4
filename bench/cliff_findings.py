"""Which cliffs does `trace` find in architectures of the installed transformers, at a length where they would count?

    python bench/cliff_findings.py [--length 4096] [--only llama,gemma3_text] [--seconds 600] [--json OUT.json]

Each architecture is built small from its default config (bench/architectures.py), traced once in bfloat16 with SDPA on
tensors without memory as on an H100, and judged by the recipes about cliffs. Each kind of finding is printed with its
words: whether it is true has to be judged by reading. Runs in the interpreter that holds transformers; needs
attn-doctor importable.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from architectures import small

CLIFFS = ("sdpa-falls-to-math", "sdpa-large-mask", "sdpa-in-float32", "linear-attention-without-kernels")
H100 = {"name": "NVIDIA H100", "compute_capability": "9.0", "shared_memory_bytes": 232448}


def found_in(model_type: str, length: int) -> dict[str, Any]:
    """The cliffs of one architecture; why it was not traced where it was not."""
    from attn_doctor.diagnose.derived import derive
    from attn_doctor.diagnose.judge import judge
    from attn_doctor.formats import trace_v1
    from attn_doctor.model.facts import FactSet
    from attn_doctor.patient.trace.run import run
    from attn_doctor.probe.trace import call_facts
    from attn_doctor.probe.trace.trace_facts import facts_of
    from attn_doctor.recipes import shelf

    config = small(model_type, widths=True)
    if isinstance(config, str):
        return {"type": model_type, "not traced": config}
    for name in ("max_position_embeddings", "n_positions", "n_ctx"):
        if isinstance(config.get(name), int):
            config[name] = max(config[name], length)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"{model_type}.json"
        target.write_text(json.dumps(config))
        request = {"kind": "hf", "target": str(target), "counterfactual": False, "dtype": "bfloat16", "attn": "sdpa"}
        answer = run.trace({**request, "length": length, "batch": 1, "rules": "fake", "gpu": H100})
    if answer["outcome"] != "finished":
        return {"type": model_type, "not traced": (answer["error"] or {}).get("message") or answer["outcome"]}
    calls = call_facts.facts(answer["forms"], how="traced", capability="9.0")
    facts = derive(FactSet([*facts_of(trace_v1.read(answer)), *calls]))
    recipes = [one for one in shelf.bundled() if one.id in CLIFFS]
    findings = [f"{one.id}: {one.title}" for one in judge(facts, recipes).findings]
    backends = Counter(one["backend"] for one in answer["forms"])
    return {"type": model_type, "findings": findings, "backends": {str(one): n for one, n in backends.items()}}


def main() -> None:
    """Prints a line for each architecture with a finding, and how many there were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    os.environ.update(TRANSFORMERS_VERBOSITY="error", OMP_NUM_THREADS="1")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    types = asked.only.split(",") if asked.only else sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    began, told = time.monotonic(), []
    for name in types:
        if time.monotonic() - began > asked.seconds:
            break
        try:
            one = found_in(name, asked.length)
        except Exception as error:
            one = {"type": name, "not traced": f"{type(error).__name__}: {error}"[:200]}
        told.append(one)
        for finding in one.get("findings", ()):
            print(name, finding, one["backends"], sep="  ", flush=True)
        if asked.json is not None:
            asked.json.write_text(json.dumps(told, indent=1))
    traced = [one for one in told if "findings" in one]
    found = sum(bool(one["findings"]) for one in traced)
    print(f"{len(told)} of {len(types)} looked at, {len(traced)} traced, {found} with a finding")


if __name__ == "__main__":
    main()
