"""Trials of attention kernels: what SDPA takes, predicted against asked; the time of quick and full; planted faults.

    python bench/kernels.py             all three, on a GPU node
    python bench/kernels.py agreement   predicted against asked, over some thousand calls; prints every disagreement
    python bench/kernels.py times       seconds of --kernels quick and full after torch is imported, and what they found
    python bench/kernels.py planted     kernels with planted faults (tests/patient/kernels/planted.py): off by 2 %,
                                        rows dropped, strides swapped, a stale cache, …: on the GPU if there is one,
                                        else on CPU tensors
    python bench/kernels.py shares [N]  what share of a matrix product beside it each kernel reaches, over N fresh
                                        processes (5): the numbers of recipes/kernel_shares.toml

Prints JSON. Needs torch; agreement and shares need a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PATIENT = ROOT / "attn_doctor" / "patient"

PLANTED = ROOT / "tests" / "patient" / "kernels" / "planted.py"


def load_patient_code():
    """attn_doctor/patient under its private name, as the patient's interpreter loads it."""
    spec = importlib.util.spec_from_file_location(
        "_attn_doctor_patient", PATIENT / "__init__.py", submodule_search_locations=[str(PATIENT)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["_attn_doctor_patient"] = module
    spec.loader.exec_module(module)


def calls():
    """Calls of scaled_dot_product_attention over every axis that its backends look at."""
    rules = importlib.import_module("_attn_doctor_patient.simulate.sdpa.rules")
    lengths = ((512, 512), (1, 512), (512, 1), (384, 512), (333, 333))
    masks = (None, "bool", "same", "float32")
    for dtype, dim, (queries, keys), kv_heads, mask, causal, train, dropout in itertools.product(
        ("bfloat16", "float16", "float32"),
        (64, 96, 128, 192, 256, 40, 60, 264),
        lengths,
        (8, 2),
        masks,
        (False, True),
        (False, True),
        (0.0, 0.1),
    ):
        if mask is not None and causal:
            continue
        # Not every combination: rare sizes with rare settings tell nothing that each alone does not.
        rare = (dim in (40, 60, 264)) + ((queries, keys) != (512, 512)) + (dropout > 0)
        if rare > 1:
            continue

        def tensor(heads, length, dim=dim, dtype=dtype, train=train):
            return rules.Tensor(shape=(2, heads, length, dim), dtype=dtype, requires_grad=train)

        kind = dtype if mask == "same" else mask
        yield rules.Call(
            query=tensor(8, queries),
            key=tensor(kv_heads, keys),
            value=tensor(kv_heads, keys),
            mask=rules.Tensor(shape=(1, 1, queries, keys), dtype=kind) if kind else None,
            causal=causal,
            dropout=dropout,
            enable_gqa=kv_heads != 8,
            grad_mode=train,
        )


def agreement():
    import torch

    load_patient_code()
    explain = importlib.import_module("_attn_doctor_patient.kernels.explain_sdpa")
    choice = importlib.import_module("_attn_doctor_patient.simulate.sdpa.choice")
    gpus = importlib.import_module("_attn_doctor_patient.simulate.cuda.simulated_gpu")
    gpu = gpus.Gpu(name=torch.cuda.get_device_name(), capability=torch.cuda.get_device_capability(), shared_memory=0)
    version, cudnn = str(torch.__version__), torch.backends.cudnn.version()
    asked = {"choice": [0, 0], "refusal": [0, 0], "words": [0, 0]}
    different: dict[str, list[str]] = {}
    uncertain = 0
    for call in calls():
        said = choice.choose(call, gpu, version, cudnn)
        real = explain.asked(torch, call)
        uncertain += not said.certain
        what = {"choice": (said.backend if said.error is None else "raises", real["chosen"] or "raises")}
        if said.error is None:
            for name in ("flash", "efficient", "cudnn"):
                there, here = name in real["refused"], name in said.refused
                asked["refusal"][0] += 1
                asked["refusal"][1] += there == here
                if there != here:
                    is_ = real["refused"].get(name, "takes it")
                    key = f"{name}: predicted {said.refused.get(name, 'takes it')}; is {is_}"
                    different.setdefault(key, []).append(_shown(call))
                elif there and real["refused"][name]:
                    asked["words"][0] += 1
                    same = real["refused"][name][0] == said.refused[name]
                    asked["words"][1] += same
                    if not same:
                        key = f"{name} words: predicted {said.refused[name]!r}; is {real['refused'][name][0]!r}"
                        different.setdefault(key, []).append(_shown(call))
        asked["choice"][0] += 1
        asked["choice"][1] += what["choice"][0] == what["choice"][1]
        if what["choice"][0] != what["choice"][1]:
            key = f"choice: predicted {what['choice'][0]}; is {what['choice'][1]}" + (
                f" ({real['raises']})" if real["raises"] else ""
            )
            different.setdefault(key, []).append(_shown(call))
    return {
        "gpu": gpu.name,
        "torch": version,
        "cudnn": cudnn,
        "agree": {name: f"{same} of {all_} ({same / max(all_, 1):.2%})" for name, (all_, same) in asked.items()},
        "not_certain": uncertain,
        "disagreements": {key: [len(where), *where[:3]] for key, where in different.items()},
    }


def _shown(call):
    mask = f" mask={call.mask.dtype}" if call.mask else ""
    flags = "".join(
        f" {n}" for n, on in (("causal", call.causal), ("gqa", call.enable_gqa), ("train", call.trains)) if on
    )
    shapes = " ".join("x".join(str(size) for size in one.shape) for one in (call.query, call.key))
    return f"{call.query.dtype} {shapes}{mask}{flags} dropout={call.dropout}"


def times():
    found = {}
    for mode in ("quick", "full"):
        done = subprocess.run(
            [sys.executable, "-m", "attn_doctor", "check", "--kernels", mode, "--no-samples", "--json"],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        if not done.stdout:
            found[mode] = done.stderr[-2000:]
            continue
        kernels = json.loads(done.stdout)["kernels"]
        by_backend: dict[str, float] = {}
        outcomes: dict[str, int] = {}
        for cell in kernels["cells"]:
            by_backend[cell["backend"]] = by_backend.get(cell["backend"], 0.0) + (cell.get("seconds") or 0.0)
            outcomes[cell["outcome"]] = outcomes.get(cell["outcome"], 0) + 1
        found[mode] = {
            "exit_status": done.returncode,
            "seconds_with_imports": kernels["seconds"],
            "seconds_of_trials": round(sum(by_backend.values()), 1),
            "by_backend": {name: round(seconds, 1) for name, seconds in by_backend.items()},
            "trials": len(kernels["cells"]),
            "not_reached": kernels["not_reached"],
            "outcomes": outcomes,
            "not_right": [
                {
                    key: cell.get(key)
                    for key in ("backend", "dtype", "head_dim", "form", "direction", "troubles", "reason")
                }
                | (cell.get("errors") or {})
                for cell in kernels["cells"]
                if cell["outcome"] != "right"
            ][:40],
        }
    return found


def shares(runs="5"):
    """Each run is a `check` of its own: process, GPU context and autotuning are fresh."""
    found: dict[str, list[float]] = {}
    product: list[float] = []
    about: dict[str, object] = {}
    for _ in range(int(runs)):
        wanted = ["--kernels", "quick", "--dtype", "bf16", "--backend", "sdpa,flash-attn", "--kernels-budget", "60"]
        done = subprocess.run(
            [sys.executable, "-m", "attn_doctor", "check", *wanted, "--no-samples", "--only", "kernels", "--json"],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        if not done.stdout:
            raise SystemExit(done.stderr[-2000:])
        report = json.loads(done.stdout)
        kernels, facts = report["kernels"], report["facts"]
        gpu = kernels["gpus"][0] if kernels["gpus"] else {}
        about = {"gpu": gpu.get("name"), "compute_capability": gpu.get("compute_capability")} | {
            name: facts.get(name, {}).get("value") for name in ("torch.version", "torch.cudnn", "driver.version")
        }
        told = [cell for cell in kernels["cells"] if cell.get("share")]
        print(json.dumps({f"{one['backend']} {one['direction']}": one["share"] for one in told}), file=sys.stderr)
        for cell in told:
            key = f"{cell['backend']} {cell['dtype']} {cell['direction']}"
            found.setdefault(key, []).append(cell["share"]["of_matmul"])
            product.append(cell["share"]["matmul_tflops"])
    return {
        **about,
        "matmul_tflops": [min(product), max(product)] if product else None,
        "of_matmul": {
            key: {"lowest": min(values), "highest": max(values), "runs": len(values)} for key, values in found.items()
        },
    }


_FAULTS = (
    "off_by_two_per_cent",
    "tile_unwritten",
    "gradient_off",
    "hangs",
    "crashes",
    "rows_dropped",
    "strides_swapped",
    "cache_stale",
    "mask_off_by_one",
    "wrong_scale",
    "no_key_no_zero",
)


def planted():
    import os

    from attn_doctor.machine.scratch import scratch
    from attn_doctor.machine.target import examine_target
    from attn_doctor.model import kernel_words
    from attn_doctor.probe.kernels import trials as kernels

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(PLANTED, Path(folder) / "planted_kernels.py")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        import torch

        devices = () if torch.cuda.is_available() else ("cpu",)
        found = {}
        for name in _FAULTS:
            with scratch() as own:
                target = examine_target(None, as_module=True, folder=own, timeout=60.0)
                asked = kernels.TrialRequest(mode="quick", seed=1, backends=(f"planted_kernels:{name}",), budget=90.0)
                answer = kernels.run(
                    target, asked, timeout=60.0, folder=own, environment=dict(os.environ), devices=devices
                )
            outcomes: dict[str, int] = {}
            for trial in answer.cells:
                key = " ".join([trial.outcome, *(trial.troubles or ())])
                outcomes[key] = outcomes.get(key, 0) + 1
            caught = [f"{kernel_words.condition(one)}: {kernel_words.worst(one)}" for one in answer.troubles]
            found[name] = {"outcomes": outcomes, "caught": caught[:3]}
    return found


def main():
    if sys.argv[1:2] == ["shares"]:
        print(json.dumps({"shares": shares(*sys.argv[2:3])}, indent=1))
        return
    wanted = sys.argv[1:] or ["agreement", "times", "planted"]
    print(json.dumps({name: globals()[name]() for name in wanted}, indent=1))


if __name__ == "__main__":
    main()
