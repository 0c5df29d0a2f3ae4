"""What tracing costs, as ratios in one process, and what a large config costs without weights.

    PATIENT_PYTHON bench/trace_cost.py [--llama]

Ratios, because machines differ: each is the best of several runs of the same work, plain and traced, taken in turn.
--llama also traces a 32-layer, 4096-wide Llama from its config (needs transformers) and prints seconds and memory,
imports included. Wants: at most 10 for the toy, 1.5 for kernels of real size, 15 s and 2048 MiB for the Llama.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attn_doctor", "patient")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "dtype": "bfloat16",
}


def ours(name):
    if "_attn_doctor_patient" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "_attn_doctor_patient", os.path.join(ROOT, "__init__.py"), submodule_search_locations=[ROOT]
        )
        sys.modules["_attn_doctor_patient"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return importlib.import_module("_attn_doctor_patient." + name)


def network(blocks, width, heads):
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            qkv = self.qkv(self.before(x)).view(batch, length, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    return nn.Sequential(*[Block() for _ in range(blocks)]).eval()


def ratio(model, x, rounds):
    import torch

    session = ours("trace.run.session")
    rules = ours("trace.rules")
    conditions = ours("trace.meet.attention").Conditions()
    plain, traced = [], []
    with session.Session(rules.Rules(rules.ON_CPU), conditions) as opened, torch.no_grad():
        model(x)
        for _ in range(rounds):
            started = time.perf_counter()
            model(x)
            plain.append(time.perf_counter() - started)
            with opened.recorded() as recording:
                started = time.perf_counter()
                model(x)
                traced.append(time.perf_counter() - started)
    if recording.error is not None:
        raise recording.error
    return min(plain), min(traced), recording.recorder.ops


def llama():
    run = ours("trace.run.run")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(LLAMA, file)
        answer = run.trace({"kind": "hf", "target": folder})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"verdict": answer["verdict"], "calls": answer["progress"]["attention_calls"], "mib": memory}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("--llama-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.llama_only:
        llama()
        return
    import torch

    cores = torch.get_num_threads()
    for words, model, x, rounds, threads in (
        # One thread: on a busy machine two of them wait for each other longer than these kernels run.
        ("24-block toy, width 64", network(24, 64, 4), torch.randn(1, 16, 64), 25, 1),
        ("4 blocks, width 1024, 1024 tokens", network(4, 1024, 16), torch.randn(2, 512, 1024), 5, cores),
    ):
        torch.set_num_threads(threads)
        plain, traced, ops = ratio(model, x, rounds)
        times = f"plain {plain * 1e3:8.2f} ms   traced {traced * 1e3:8.2f} ms"
        print(f"{words:36} {times}   ratio {traced / plain:5.2f}   {ops} ops")
    if options.llama:
        started = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--llama-only"], capture_output=True, text=True
        )
        seconds = time.perf_counter() - started
        print(f"32-layer Llama from its config: {seconds:.1f} s, {(ended.stdout or ended.stderr).strip()[-300:]}")


if __name__ == "__main__":
    main()
