"""The guard in transformers' own Trainer and in Lightning's, on the CPU. By hand: both are downloaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import needs_torch
from tests.installed import installed, new_transformers

pytestmark = [needs_torch, pytest.mark.registry, pytest.mark.heavy]
ROOT = Path(__file__).resolve().parents[3]
NEEDED = ("safetensors", "pyyaml", "regex", "tqdm", "filelock", "numpy", "psutil")

COMMON = """
import sys, json, torch
import torch.nn.functional as F
import attn_doctor
original = F.scaled_dot_product_attention
count = [0]
def attention(q, k, v, *args, **given):
    count[0] += 1
    if count[0] > {since}:
        given["scale"] = 3.0
    return original(q, k, v, *args, **given)
F.scaled_dot_product_attention = attention
guard = attn_doctor.watch(every=3, policy={policy!r})
"""
TRANSFORMERS = """
import tempfile
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=64))
rows = [torch.randint(0, 64, (17,)).tolist() for _ in range(40)]
trainer = Trainer(
    model=model, callbacks=[guard.for_transformers()],
    train_dataset=[{"input_ids": row, "labels": row} for row in rows],
    args=TrainingArguments(output_dir=tempfile.mkdtemp(), max_steps=8, per_device_train_batch_size=2, report_to=[],
                           save_strategy="no", use_cpu=True, disable_tqdm=True),
)
run = trainer.train
"""
LIGHTNING = """
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 96)
    def training_step(self, batch, number):
        q, k, v = self.layer(batch[0]).view(2, 12, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 12, 32)), batch_size=2)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False, callbacks=[guard.for_lightning()])
def run():
    trainer.fit(Module(), data)
"""
ENDS = """
try:
    run()
    stopped = False
except attn_doctor.AttentionTrouble:
    stopped = True
seen = guard.answer()["attention"]
print("SAID", json.dumps([stopped, len(guard.told), guard.trouble, seen[0]["guarded"]["first_step"],
                          seen[0]["guarded"]["last_step"], F.scaled_dot_product_attention is attention]))
"""


def run(body, folders, since, policy):
    import json

    code = COMMON.format(since=since, policy=policy) + body + ENDS
    path = os.pathsep.join(map(str, [ROOT, *folders]))
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    said = [line for line in ended.stdout.splitlines() if line.startswith("SAID ")]
    assert said, ended.stderr[-3000:]
    return json.loads(said[-1][5:])


@pytest.fixture(scope="module")
def transformers():
    return [new_transformers(), installed("accelerate==1.15.0", deps=("huggingface-hub", *NEEDED), compiled=False)]


@pytest.fixture(scope="module")
def lightning():
    deps = ("lightning-utilities", "packaging", "tqdm", "pyyaml", "fsspec", "typing-extensions", "aiohttp")
    own = installed("lightning==2.6.6", "pytorch-lightning==2.6.6", "torchmetrics==1.9.0", deps=deps, compiled=False)
    return [own]


@pytest.mark.parametrize(("body", "calls"), [(TRANSFORMERS, 2), (LIGHTNING, 1)], ids=["transformers", "lightning"])
def test_a_sound_run_and_a_wrong_one(request, body, calls):
    folders = request.getfixturevalue("transformers" if body is TRANSFORMERS else "lightning")

    assert run(body, folders, since=10**9, policy="log") == [False, 0, None, 0, 6, True]
    stopped, told, trouble, first, last, restored = run(body, folders, since=5 * calls, policy="stop")
    assert (stopped, told, trouble, first, last, restored) == (True, 1, None, 0, 6, True)
