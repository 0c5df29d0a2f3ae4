"""Predicted verdicts of Triton kernels, and on a machine with a GPU how many of them came true.

    python3 bench/triton_verdicts.py                      predict for H100, RTX 4090, A100 and T4
    python3 bench/triton_verdicts.py --gpu 9.0 --gpu 8.9  predict for these compute capabilities
    python3 bench/triton_verdicts.py --real               predict for the GPU here, launch there, compare

Needs torch and Triton, nothing else; prints JSON. The prediction touches no GPU: it runs on CPU tensors before any
CUDA context is made, and what is launched for real runs in processes of its own.
"""

# ruff: noqa: N803 - constants of Triton kernels are written in capitals
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENT = os.path.join(os.path.dirname(HERE), "attn_doctor", "patient")


def load_patient_code():
    """attn_doctor/patient under its private name, as the patient's interpreter loads it."""
    spec = importlib.util.spec_from_file_location(
        "_attn_doctor_patient", os.path.join(PATIENT, "__init__.py"), submodule_search_locations=[PATIENT]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["_attn_doctor_patient"] = module
    spec.loader.exec_module(module)


@triton.jit
def transposed_store(x, y, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    tile = tl.trans(tl.load(x + m[:, None] * N + n[None, :]))
    tl.store(y + n[:, None] * M + m[None, :], tile)


@triton.jit
def dot(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(z + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def looped_dot(x, y, z, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros([BM, BN], dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(x + m[:, None] * K + (start + k)[None, :])
        b = tl.load(y + (start + k)[:, None] * BN + n[None, :])
        total += tl.dot(a, b)
    tl.store(z + m[:, None] * BN + n[None, :], total)


@triton.jit
def attention(q, k, v, out, T, SCALE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    tile_q = tl.load(q + m[:, None] * D + d[None, :])
    highest = tl.zeros([BM], dtype=tl.float32) - 1e30
    weight = tl.zeros([BM], dtype=tl.float32)
    total = tl.zeros([BM, D], dtype=tl.float32)
    for start in range(0, T, BN):
        tile_k = tl.load(k + (start + n)[None, :] * D + d[:, None])
        tile_v = tl.load(v + (start + n)[:, None] * D + d[None, :])
        scores = tl.dot(tile_q, tile_k) * SCALE
        higher = tl.maximum(highest, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        weight = weight * shrink + tl.sum(p, 1)
        total = total * shrink[:, None] + tl.dot(p.to(tile_v.dtype), tile_v)
        highest = higher
    tl.store(out + m[:, None] * D + d[None, :], total / weight[:, None])


@triton.jit
def row_sum(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)).to(tl.float32)))


@triton.jit
def odd_range(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


@triton.jit
def asserting(x, y, N: tl.constexpr):
    tl.static_assert(N <= 64, "at most 64 columns")
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


@triton.jit
def misspelled(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), tl.load(x + tl.arange(0, N)) + undefined_name)  # noqa: F821


def _configs(*sizes):
    return [triton.Config({"BM": m, "BN": n, "BK": k}, num_stages=s, num_warps=w) for m, n, k, s, w in sizes]


def _dots(launched, m, n, k, left, right, **options):
    def case(device):
        x = torch.ones(m, k, device=device).to(left)
        y = torch.ones(k, n, device=device).to(right)
        return launched[(1,)](x, y, torch.empty(m, n, device=device), m, n, k, **options)

    return case


def _looped(k, bm, bn, bk, dtype, **options):
    def case(device):
        x = torch.ones(bm, k, device=device).to(dtype)
        y = torch.ones(k, bn, device=device).to(dtype)
        return looped_dot[(1,)](x, y, torch.empty(bm, bn, device=device), k, bm, bn, bk, **options)

    return case


def _tuned(*sizes):
    def case(device):
        # Made here and not above: Triton 3.2 asks for an active driver when a kernel is decorated.
        launched = triton.autotune(configs=_configs(*sizes), key=["K"])(looped_dot)
        # Big enough for the largest tile of any configuration; the kernel reads its own corner.
        x = torch.ones(256, 512, device=device, dtype=torch.float16)
        return launched[(1,)](x, torch.ones_like(x).t().contiguous(), torch.empty(512, 512, device=device), 512)

    return case


def _attention(bm, bn, d, dtype, **options):
    def case(device):
        q, k, v = (torch.ones(256, d, device=device).to(dtype) for _ in range(3))
        return attention[(1,)](q, k, v, torch.empty(256, d, device=device), 256, 0.125, bm, bn, d, **options)

    return case


def _rows(launched, n, dtype, **options):
    def case(device):
        x = torch.ones(n, device=device).to(dtype)
        return launched[(1,)](x, torch.empty(n, device=device), n, **options)

    return case


def _transposed(m, n, dtype):
    def case(device):
        x = torch.ones(m, n, device=device).to(dtype)
        return transposed_store[(1,)](x, torch.empty(n, m, device=device).to(dtype), m, n)

    return case


HALF, BF16, FULL = torch.float16, torch.bfloat16, torch.float32
FP8 = getattr(torch, "float8_e4m3fn", None)
CASES = {
    "transposed store bf16": _transposed(64, 64, BF16),
    "transposed store fp16": _transposed(32, 128, HALF),
    "dot fp16 x fp16": _dots(dot, 64, 64, 64, HALF, HALF),
    "dot bf16 x bf16": _dots(dot, 64, 64, 64, BF16, BF16),
    "dot fp32 x fp32": _dots(dot, 32, 32, 32, FULL, FULL),
    "dot fp16 x fp32": _dots(dot, 64, 64, 64, HALF, FULL),
    "dot bf16 x fp32": _dots(dot, 64, 64, 64, BF16, FULL),
    "dot fp32 x bf16": _dots(dot, 64, 64, 64, FULL, BF16),
    "dot bf16 x fp16": _dots(dot, 64, 64, 64, BF16, HALF),
    "dot of 8 rows": _dots(dot, 8, 16, 16, HALF, HALF),
    "dot 128 KiB": _dots(dot, 128, 128, 256, HALF, HALF, num_warps=8),
    "dot 256 KiB": _dots(dot, 128, 128, 256, FULL, FULL, num_warps=8),
    "looped dot, 2 stages": _looped(256, 128, 128, 64, HALF, num_stages=2, num_warps=8),
    "looped dot, 3 stages": _looped(256, 128, 256, 64, HALF, num_stages=3, num_warps=8),
    "looped dot, 4 stages": _looped(512, 128, 256, 64, BF16, num_stages=4, num_warps=8),
    "looped dot, 5 stages": _looped(512, 128, 256, 64, HALF, num_stages=5, num_warps=8),
    "attention, head dim 64": _attention(128, 64, 64, BF16, num_stages=2),
    "attention, head dim 128": _attention(128, 64, 128, HALF, num_stages=3, num_warps=8),
    "attention, head dim 256": _attention(128, 64, 256, BF16, num_stages=3, num_warps=8),
    "row sum": _rows(row_sum, 4096, HALF),
    "row sum, 1 warp": _rows(row_sum, 65536, BF16, num_warps=1),
    "range of 48": _rows(odd_range, 48, HALF),
    "static assertion": _rows(asserting, 128, HALF),
    "undefined name": _rows(misspelled, 64, HALF),
    "3 warps": _rows(row_sum, 128, HALF, num_warps=3),
    "autotuned, one fits": _tuned((128, 256, 128, 4, 8), (128, 128, 64, 3, 8), (64, 64, 32, 2, 4)),
    "autotuned, none fits": _tuned((256, 256, 256, 4, 8), (256, 256, 128, 4, 8)),
}
if FP8 is not None:
    CASES["dot fp8 x fp8"] = _dots(dot, 64, 64, 64, FP8, FP8)
    CASES["dot fp8 x fp16"] = _dots(dot, 64, 64, 64, FP8, HALF)


def predict(gpus, timeout):
    """{GPU name: {case: verdict}} for GPUs as from_request takes them."""
    load_patient_code()
    from _attn_doctor_patient.simulate.cuda import simulated_gpu
    from _attn_doctor_patient.simulate.triton import (
        compile as triton_compile,
    )
    from _attn_doctor_patient.simulate.triton import (
        driver as triton_driver,
    )
    from _attn_doctor_patient.simulate.triton import (
        record as triton_record,
    )

    named = [simulated_gpu.from_request(gpu) for gpu in gpus]
    scratch = tempfile.mkdtemp(prefix="triton-verdicts-")
    launches = []
    try:
        with triton_driver.virtual_driver(named[0], scratch), triton_record.record() as recording:
            for case in CASES.values():
                before = len(recording.launches)
                case("cpu")
                launches.append(recording.launches[before:])
        assert all(len(seen) == 1 for seen in launches), "two cases are the same launch"
        verdicts = triton_compile.compile_launches(
            [seen[0] for seen in launches], named, scratch=scratch, timeout=timeout
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    verdict, found = iter(verdicts), {gpu.name: {} for gpu in named}
    for case in CASES:
        for gpu in named:
            found[gpu.name][case] = shortened(next(verdict))
    return found


def shortened(verdict):
    decisive = [c for c in verdict.configurations if c.outcome == verdict.outcome]
    return {
        "outcome": verdict.outcome,
        "exception": verdict.exception,
        "text": decisive[0].text if decisive else verdict.message,
        "shared_memory": verdict.required,
        "limit": verdict.limit,
        "registers": verdict.registers,
        "spilled_bytes": verdict.spilled_bytes,
        "signal": verdict.signal,
        "configurations": len(verdict.configurations),
        "seconds": round(sum(c.seconds for c in verdict.configurations), 2),
    }


def describe():
    """The GPU here, in a process that may make a CUDA context."""
    properties = torch.cuda.get_device_properties(0)
    optin = getattr(properties, "shared_memory_per_block_optin", None)  # torch 2.5 and later
    if optin is None:
        optin = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
    return {
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "shared_memory_bytes": optin,
        "memory_mib": properties.total_memory // 2**20,
        "multi_processor_count": properties.multi_processor_count,
    }


def launch_really(names, answers):
    """Launches the cases here and now, appending a line of JSON for each: begun, then ended."""
    with open(answers, "a", encoding="utf-8") as file:

        def tell(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        for name in names:
            tell({"case": name, "begun": True})
            try:
                kernel = CASES[name]("cuda")
                torch.cuda.synchronize()
                metadata = kernel.metadata
                tell(
                    {
                        "case": name,
                        "outcome": "compiles",
                        "exception": None,
                        "text": "",
                        "shared_memory": metadata.shared,
                        "registers": kernel.n_regs,
                        "spilled_bytes": kernel.n_spills * 4,
                    }
                )
            except Exception as error:
                shared = getattr(error, "name", None) == "shared memory"
                tell(
                    {
                        "case": name,
                        "outcome": "exceeds shared memory" if shared else "refuses",
                        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
                        "text": str(error),
                        "shared_memory": getattr(error, "required", None) if shared else None,
                    }
                )


def in_processes(timeout):
    """{case: what really happened}. A process that dies or hangs costs its case; the next one goes on."""
    folder = tempfile.mkdtemp(prefix="triton-real-")
    answers = os.path.join(folder, "answers.jsonl")
    environment = dict(os.environ, TRITON_CACHE_DIR=os.path.join(folder, "cache"))
    left, seen = list(CASES), {}
    while left:
        open(answers, "w", encoding="utf-8").close()
        command = [sys.executable, os.path.abspath(__file__), "--launch", answers, *left]
        how = "ended"
        try:
            ended = subprocess.run(command, env=environment, timeout=timeout * len(left), capture_output=True)
            how = f"exit status {ended.returncode}: {ended.stderr.decode(errors='replace')[-500:]}"
        except subprocess.TimeoutExpired:
            how = "hung"
        begun = None
        with open(answers, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("begun"):
                    begun = line["case"]
                else:
                    seen[line.pop("case")] = line
                    begun = None
        if begun is not None:
            seen[begun] = {"outcome": "hung" if how == "hung" else "aborted", "exception": None, "text": how}
        rest = [name for name in left if name not in seen]
        if len(rest) == len(left):
            for name in rest:
                seen[name] = {"outcome": "could not look", "exception": None, "text": how}
            rest = []
        left = rest
    shutil.rmtree(folder, ignore_errors=True)
    return seen


COMPARED = ("outcome", "exception", "text", "shared_memory", "registers", "spilled_bytes")


def compare(predicted, real):
    rows = []
    for case, forecast in predicted.items():
        happened = real[case]
        differs = [
            key
            for key in COMPARED
            if forecast.get(key) != happened.get(key) and not (key in COMPARED[3:] and happened.get(key) is None)
        ]
        tuned = case.startswith("autotuned") and happened["outcome"] == "compiles"
        if tuned:  # which of the configurations that fit is the fastest is for the GPU to say
            differs = [key for key in differs if key not in COMPARED[3:]]
        rows.append({"case": case, "agrees": not differs, "differs": differs, "predicted": forecast, "real": happened})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpu", action="append", help="a compute capability, as in 9.0; again for more")
    parser.add_argument("--real", action="store_true", help="launch on the GPU here and compare")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one configuration")
    parser.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--launch", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.describe:
        print(json.dumps(describe()))
        return 0
    if options.launch:
        launch_really(options.launch[1:], options.launch[0])
        return 0
    started = time.monotonic()
    report = {"torch": torch.__version__, "triton": triton.__version__, "python": sys.version.split()[0]}
    if not options.real:
        wanted = options.gpu or ["9.0", "8.9", "8.0", "7.5"]
        report["predicted"] = predict([{"compute_capability": gpu} for gpu in wanted], options.timeout)
    else:
        asked = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--describe"],
            capture_output=True,
            text=True,
            timeout=180,
        )
        if asked.returncode:
            print(asked.stderr[-2000:], file=sys.stderr)
            return 3
        gpu = json.loads(asked.stdout.strip().splitlines()[-1])
        predicted = predict([gpu], options.timeout)[gpu["name"]]
        report["gpu"] = gpu
        report["seconds_predicting"] = round(time.monotonic() - started, 1)
        rows = compare(predicted, in_processes(options.timeout))
        report["cases"] = rows
        report["agree"], report["of"] = sum(row["agrees"] for row in rows), len(rows)
        report["disagree"] = {row["case"]: row["differs"] for row in rows if not row["agrees"]}
    report["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
