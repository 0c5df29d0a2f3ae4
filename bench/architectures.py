"""Do all architectures of the installed transformers make the same attention calls under every kind of rules?

    python bench/architectures.py --json OUT.json                    # cpu against fake: about an hour on one core
    python bench/architectures.py --rules fake,cpu,gpu --jobs 12 --json OUT.json     # on a GPU node
    python bench/architectures.py --only llama,gemma3 --attn sdpa

Each architecture is built from its default config, cut to two layers and small widths, and traced once for each
attention and setting under each of the rules; the first are held against the others. Compared is all that an answer
tells of the attention calls: number, name, line, dtypes, shapes, strides, backend and verdict. Of what does not agree
the first difference is printed. Runs in the interpreter that holds transformers; needs attn-doctor importable.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import logging
import multiprocessing
import os
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

SMALL = {
    2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers depth "
    "num_encoder_layers num_blocks num_experts_per_tok moe_top_k num_experts_per_token mlp_layers",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads attention_heads "
    "num_key_value_heads num_kv_heads n_kv_heads",
    8: "num_local_experts num_experts n_routed_experts",
    16: "head_dim d_kv attention_head_size",
    64: "hidden_size d_model n_embd embed_dim dim embedding_size emb_dim word_embed_proj_dim",
    128: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner moe_intermediate_size "
    "feed_forward_dim ffn_hidden_size",
    1024: "vocab_size",
}
"""The largest value that is left of an integer of such a name."""
WIDTHS = (4, 16, 64, 128)
ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
SETTINGS = ({"autocast": None, "backward": False}, {"autocast": "bfloat16", "backward": True})


def cut(config: Any, widths: bool) -> Any:
    """A config's dictionary with few layers, and with small widths where asked."""
    if isinstance(config, list):
        return [cut(item, widths) for item in config]
    if not isinstance(config, dict):
        return config
    most = {name: n for n, names in SMALL.items() for name in names.split() if widths or n not in WIDTHS}
    found = {}
    for name, value in config.items():
        if name in most and type(value) is int and value > most[name]:
            value = most[name]
        elif str(name).endswith("token_id") and type(value) is int and value >= 1024:
            value = 0
        elif name in ("layer_types", "mlp_layer_types") and isinstance(value, list):
            kinds = list(dict.fromkeys(value))
            value = kinds[:2] if len(kinds) >= 2 else value[:2]
        else:
            value = cut(value, widths)
        found[name] = value
    return found


def small(model_type: str, widths: bool) -> dict[str, Any] | str:
    """The small config of an architecture, or why there is none."""
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    try:
        config = cut(configuration_auto.CONFIG_MAPPING[model_type]().to_dict(), widths)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    config["model_type"] = model_type
    for mapping in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_MAPPING_NAMES"):
        named = getattr(modeling_auto, mapping).get(model_type)
        named = named[0] if isinstance(named, (tuple, list)) else named
        if named is not None and hasattr(transformers, named):
            config["architectures"] = [named]
            break
    return config


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """What has to agree of an answer."""
    calls = []
    for call in answer["attention"]:
        operands = {role: [one["dtype"], one["shape"], one["stride"]] for role, one in sorted(call["operands"].items())}
        backend = call["backend"] or {}
        calls.append(
            {
                "name": call["name"],
                "at": [call["at"]["file"].rsplit("/", 1)[-1], call["at"]["line"]] if call["at"] else None,
                "calls": call["calls"],
                "verdict": call["verdict"],
                "autocast": call["autocast"],
                "backward": call["backward"],
                "operands": operands,
                "taken": backend.get("taken"),
                "refused": sorted(backend.get("refused", {})),
                "error": call["error"]["type"] if call["error"] else None,
            }
        )
    error = answer["error"]
    message = (error["message"] or " ").splitlines()[0][:200] if error else ""
    return {
        "outcome": answer["outcome"],
        "error": f"{error['kind']}: {error['type']}: {message}" if error else None,
        "attention": calls,
    }


def difference(left: Any, right: Any, path: str = "") -> str | None:
    """The first place at which two things differ, in words."""
    if left == right:
        return None
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return next(d for d in (difference(left[k], right[k], f"{path}.{k}") for k in left) if d)
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right) and path.count(".") < 4:
        pairs = enumerate(zip(left, right, strict=True))
        return next(d for d in (difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs) if d)
    if isinstance(left, list) and isinstance(right, list) and len(left) != len(right):
        return f"{path}: {len(left)} and {len(right)} entries"
    return f"{path}: {left!r} and {right!r}"


def forget() -> None:
    """Empty the caches of models: what one run put there, tensors of its device, the next one would find."""
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper) and str(thing.__module__).startswith("transformers.models."):
            thing.cache_clear()


def one(job: tuple[str, Any, argparse.Namespace]) -> dict[str, Any]:
    """All runs of one architecture. Its process has to meet transformers under the trace's rules first."""
    model_type, configs, options = job
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from attn_doctor.patient.trace.run import run

    names = options.rules.split(",")
    found: dict[str, Any] = {"type": model_type, "runs": {}, "unbuilt": None, "seconds": 0.0}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / f"{model_type}.json")
        request: dict[str, Any] = {"kind": "hf", "counterfactual": False, "dtype": options.dtype}
        request.update({"length": options.length, "batch": options.batch})
        for size, config in configs.items():
            if isinstance(config, str):
                found["unbuilt"] = config
                continue
            Path(target).write_text(json.dumps(config))
            probe = run.trace({**request, "target": target, "attn": "eager", "rules": "fake"})
            if probe["outcome"] == "finished":
                found.update(unbuilt=None, config=size)
                break
            found["unbuilt"] = (probe["error"] or {}).get("words", probe["outcome"])
        if found["unbuilt"] is None:
            for attention in options.attn.split(","):
                for setting in SETTINGS:
                    label = f"{attention}{' autocast backward' if setting['backward'] else ''}"
                    asked = {**request, **setting, "target": target, "attn": attention}
                    answers = {}
                    for name in names:
                        forget()
                        answers[name] = told(run.trace({**asked, "rules": name}))
                    pairs = ((name, difference(answers[names[0]], answers[name])) for name in names[1:])
                    apart = "; ".join(f"{names[0]} and {name}{words}" for name, words in pairs if words)
                    found["runs"][label] = {"apart": apart or None, **answers}
    found["seconds"] = round(time.monotonic() - began, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="cpu,fake")
    parser.add_argument("--only", help="model types, comma-separated; or 1/4 for the first of four shares")
    parser.add_argument("--attn", default=",".join(ATTENTIONS))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop starting new ones after so long")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.update(TRANSFORMERS_VERBOSITY="error", OMP_NUM_THREADS="1")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES

    # Parts of other models have configs of their own, and no class that a config alone makes.
    made = {**MODEL_MAPPING_NAMES, **MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    types = sorted(name for name in CONFIG_MAPPING_NAMES if name in made)
    if options.only and "/" in options.only:
        share, of = (int(n) for n in options.only.split("/"))
        types = types[share - 1 :: of]
    elif options.only:
        types = options.only.split(",")
    jobs = [(name, {"small": small(name, True), "cut": small(name, False)}, options) for name in types]
    found, began = [], time.monotonic()
    # A fresh process now and then: one that dies takes few with it, and memory is given back.
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=40) as pool:
        answers = pool.imap_unordered(one, jobs)
        while (left := options.seconds - (time.monotonic() - began)) > 0:
            try:
                answer = answers.next(timeout=min(left, 300.0))
            except StopIteration:
                break
            except multiprocessing.TimeoutError:
                print("no more answers: time is up, or a process died")
                break
            found.append(answer)
            apart = {label: runs["apart"] for label, runs in answer["runs"].items() if runs["apart"]}
            state = f"not built: {answer['unbuilt']}" if answer["unbuilt"] else "agrees" if not apart else "APART"
            print(f"{answer['type']:32} {answer['seconds']:6.1f} s  {state}", flush=True)
            for label, words in apart.items():
                print(f"    {label}: {words}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found))
    counts = Counter(
        "not built" if a["unbuilt"] else "apart" if any(r["apart"] for r in a["runs"].values()) else "agree"
        for a in found
    )
    print(f"{len(found)} of {len(types)} architectures: {dict(counts)}")


if __name__ == "__main__":
    main()
