"""FlexAttention foreseen for this GPU without looking at it, held against what torch compiles on it.

    python bench/flex_foreseen.py       on a GPU node: both, and where they differ; 23 calls, minutes

Each call of `check --kernels full --gpu …` is lowered twice, each time in a fresh process: once with the GPU hidden and
stood in for, once on the GPU itself, where it also runs. Compared are the outcome of each call, and by name the shared
memory that each of its attention kernels needs; the small reduction beside them tunes itself on a GPU. Prints JSON.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENT = ROOT / "attn_doctor" / "patient"

_ATTENDS = "triton_tem_fused_flex_attention"
"""How torch names the kernels that it makes of its flex templates."""


def load_patient_code():
    """attn_doctor/patient under its private name, as the patient's interpreter loads it."""
    spec = importlib.util.spec_from_file_location(
        "_attn_doctor_patient", PATIENT / "__init__.py", submodule_search_locations=[str(PATIENT)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["_attn_doctor_patient"] = module
    spec.loader.exec_module(module)


def ours(name):
    return importlib.import_module("_attn_doctor_patient." + name)


def calls(torch, capability):
    cells, plan = ours("kernels.cells"), ours("kernels.plan")
    place = cells.Place(
        capability=capability, gpu_name="", torch_version=str(torch.__version__), versions={}, cudnn=None
    )
    return plan.flex_calls(place, "full", None)


def foreseen(gpu):
    import torch

    load_patient_code()
    gpus, inductor, flex = (
        ours("simulate.cuda.simulated_gpu"),
        ours("simulate.triton.inductor"),
        ours("kernels.flex_kernels"),
    )
    one = gpus.Gpu(**{**gpu, "capability": tuple(gpu["capability"])})
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        inductor.become(one, scratch)
        for cell in calls(torch, one.capability):
            torch._dynamo.reset()
            try:
                sources = flex.sources(cell)
            except Exception as error:
                found[cell.words] = {"compiles": None, "raises": f"{type(error).__name__}: {error}"[:300]}
                continue
            compiled = [inductor.compile_here(source) for source in sources]
            found[cell.words] = {
                "compiles": not any("exception" in one for one in compiled),
                "needs": {s.name: c["shared"] for s, c in zip(sources, compiled, strict=True) if _ATTENDS in s.name},
            }
    return found


def real():
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # so that kernels are here when they are asked for
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    import torch
    from torch._inductor import async_compile

    load_patient_code()
    problems, flex, registry = ours("kernels.problems"), ours("libraries.flex"), ours("kernels.registry")
    seen = []
    original = async_compile.AsyncCompile.triton

    def keep(self, name, text, *rest, **options):
        kernel = original(self, name, text, *rest, **options)
        if _ATTENDS in name:
            seen.append((name, kernel))
        return kernel

    async_compile.AsyncCompile.triton = keep
    found = {}
    for cell in calls(torch, torch.cuda.get_device_capability()):
        torch._dynamo.reset()
        seen.clear()
        try:
            problem = problems.make_problem(cell, "cuda:0", 1, problems.SMALL)
            out = flex.prepare(problem, registry.backend("flex"))()
            out.backward(problem.out_gradient)
            torch.cuda.synchronize()
        except Exception as error:
            said = [line for line in str(error).splitlines() if "out of resource" in line] or [str(error)]
            found[cell.words] = {"compiles": False, "raises": f"{type(error).__name__}: {said[0]}"[:300]}
            continue
        needs = {}
        for name, kernel in seen:
            kernel = kernel.result() if hasattr(kernel, "result") else kernel
            told = [getattr(one, "shared", None) for one in kernel.launchers]
            needs[name] = min((need for need in told if isinstance(need, int)), default=None)
        found[cell.words] = {"compiles": True, "needs": needs}
    return found


def start(what, *rest, **environment):
    return subprocess.Popen(
        [sys.executable, __file__, what, *rest], stdout=subprocess.PIPE, env={**os.environ, **environment}
    )


def answer(process):
    out = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"{process.args[2]} ended with {process.returncode}")
    return json.loads(out)


def bytes_of(one):
    """Without names: torch counts its kernels as it comes to them."""
    return sorted(one.get("needs", {}).values())


def main():
    if sys.argv[1:2] == ["real"]:
        print(json.dumps(real()))
        return
    if sys.argv[1:2] == ["foreseen"]:
        print(json.dumps(foreseen(json.loads(sys.argv[2]))))
        return
    import torch

    has = torch.cuda.get_device_properties(0)
    gpu = {
        "name": has.name,
        "capability": [has.major, has.minor],
        "shared_memory": has.shared_memory_per_block_optin,
        "memory_mib": has.total_memory // 2**20,
        "multi_processor_count": has.multi_processor_count,
    }
    started = start("real"), start("foreseen", json.dumps(gpu), CUDA_VISIBLE_DEVICES="")
    there, here = (answer(one) for one in started)
    outcomes = [call for call in there if there[call]["compiles"] == here[call]["compiles"]]
    compile_ = [call for call in there if there[call]["compiles"]]
    needs = [call for call in compile_ if bytes_of(there[call]) == bytes_of(here[call])]
    print(
        json.dumps(
            {
                "gpu": gpu,
                "torch": str(torch.__version__),
                "same_outcome": f"{len(outcomes)} of {len(there)}",
                "same_shared_memory": f"{len(needs)} of {len(compile_)}",
                "fail": {call: [there[call], here[call]] for call in there if not there[call]["compiles"]},
                "differ": {call: [there[call], here[call]] for call in compile_ if call not in needs},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
