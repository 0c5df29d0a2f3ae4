"""The guard on two real ranks: torchrun, gloo, processors; DDP and fully_shard. By hand: half a minute a run."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import needs_torch

pytestmark = [needs_torch, pytest.mark.heavy]
ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import json, os, sys, time
import torch, torch.distributed as dist
import torch.nn.functional as F
import attn_doctor

way, policy, since, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
original, step_number = F.scaled_dot_product_attention, [0]


def attention(q, k, v, *args, **given):
    if step_number[0] >= since:
        given["scale"] = 3.0
    return original(q, k, v, *args, **given)


F.scaled_dot_product_attention = attention


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


model = torch.nn.Sequential(Block(), Block())
if way == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
guard = attn_doctor.watch(every=2, policy=policy, report=f"{out}/report-{rank}.json")
with guard:
    for step_number[0] in range(8):
        x = torch.randn(2, 24, 32, generator=torch.Generator().manual_seed(step_number[0] * 2 + rank))
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        guard.step()
answer = guard.answer()
told = {"told": guard.told, "watched": answer is not None, "trouble": guard.trouble, "steps": step_number[0] + 1,
        "calls": len(answer["attention"]) if answer else 0}
with open(f"{out}/rank-{rank}.json", "w") as file:
    json.dump(told, file)
dist.barrier()
dist.destroy_process_group()
"""


def run(folder, way, policy, since):
    """Exit status, standard error and seconds of the two ranks; they end in two minutes or the test fails."""
    (folder / "train.py").write_text(SCRIPT)
    begun = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("train.py", way, policy, str(since), str(folder)),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr, time.monotonic() - begun


def said(folder, rank):
    return json.loads((folder / f"rank-{rank}.json").read_text())


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_sound_run(way, tmp_path):
    """One rank looks, both take every step, one report is written, nothing is said."""
    status, stderr, _ = run(tmp_path, way, "stop", 99)

    assert status == 0, stderr
    first, second = said(tmp_path, 0), said(tmp_path, 1)
    assert (first["watched"], second["watched"]) == (True, False)
    assert (first["told"], second["told"], first["trouble"], second["trouble"]) == ([], [], None, None)
    assert first["steps"] == second["steps"] == 8
    assert first["calls"] > 0
    assert [one.name for one in sorted(tmp_path.glob("report-*"))] == ["report-0.json"]
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert report["schema"] == "attn-doctor/report/v1"
    assert report["findings"] == []


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_fault_that_is_logged(way, tmp_path):
    """The run goes on to its end on both ranks; the fault is told once, by the first."""
    status, stderr, _ = run(tmp_path, way, "log", 4)

    assert status == 0, stderr
    first, second = said(tmp_path, 0), said(tmp_path, 1)
    assert first["steps"] == second["steps"] == 8
    assert first["told"]
    assert second["told"] == []
    assert stderr.count(first["told"][0]) == 1
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert [one["id"] for one in report["findings"]] == ["attention-wrong-in-run"]


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_fault_that_stops(way, tmp_path):
    """The first rank raises; the other one waits in no collective: the launcher ends it, and the report is whole."""
    status, stderr, seconds = run(tmp_path, way, "stop", 4)

    assert status != 0
    assert "AttentionTrouble" in stderr
    assert seconds < 90
    assert not list(tmp_path.glob("rank-*.json"))
    report = json.loads((tmp_path / "report-0.json").read_text())
    assert [one["id"] for one in report["findings"]] == ["attention-wrong-in-run"]
    assert [one.name for one in sorted(tmp_path.glob("report-*"))] == ["report-0.json"]
