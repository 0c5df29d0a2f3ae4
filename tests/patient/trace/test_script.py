"""Somebody's own program, under the tracer, on a machine without a GPU."""

import pytest

PROGRAM = """
import sys
import torch
from torch import nn

assert torch.cuda.is_available(), "this program needs a GPU"
device = torch.device("cuda")
torch.cuda.manual_seed(0)
print(torch.cuda.get_device_name())


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.gain = nn.Linear(32, 96), nn.Parameter(torch.ones(8))
        self.bad = False

    def forward(self, x):
        from flash_attn import flash_attn_func

        q, k, v = self.qkv(x).view(2, 8, 3, 4, 8).unbind(2)
        if self.bad:
            q = q * self.gain
        return flash_attn_func(q, k, v).flatten(2)


net = nn.Sequential(Attention(), nn.Linear(32, 32)).to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
generator = torch.Generator(device="cuda").manual_seed(1)
for step in range(6):
    net[0].bad = step == int(sys.argv[1])
    x = torch.randn(2, 8, 32, device=device, generator=generator)
    assert x.is_cuda and x.device == torch.device("cuda:0")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(x.cuda(non_blocking=True)).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    torch.cuda.synchronize()
open(sys.argv[2], "a").write("done")
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_first_broken_call_ends_it(traced, program, tmp_path):
    """It runs until the first broken attention call and no further; the outermost module call is tried again mended."""
    answer = traced.ask({"kind": "script", "target": str(program), "args": ["3", str(tmp_path / "out")]})

    assert (answer["outcome"], answer["verdict"]) == ("stopped", "raises")
    assert [(c["calls"], c["verdict"]) for c in answer["attention"]] == [(3, "clean"), (1, "raises")]
    assert answer["promotions"][0]["source"] == "q = q * self.gain"
    assert answer["counterfactual"]["clean_after"] == 1
    assert not (tmp_path / "out").exists()


def test_enough_calls_end_it(traced, program, tmp_path):
    """With a number of calls it ends after so many."""
    answer = traced.ask({"kind": "script", "target": str(program), "args": ["3", str(tmp_path / "out")], "calls": 2})

    assert (answer["outcome"], answer["verdict"]) == ("stopped", "clean")
    assert answer["progress"]["attention_calls"] == 2


def test_a_healthy_program_runs_to_its_end(traced, program, tmp_path):
    """Nothing broken: the program ends as it would on a GPU, tensors of both devices and all."""
    answer = traced.ask({"kind": "script", "target": str(program), "args": ["9", str(tmp_path / "out")]})

    assert (answer["outcome"], answer["verdict"]) == ("finished", "clean")
    assert (tmp_path / "out").read_text() == "done"
    assert answer["rules"]["not_simulated"] == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("net(x)", None),
        ("net(torch.randn(2, 4))", "wrong device"),
        ("net(torch.randn(2, 4).to(x.device))", None),
        ("net(torch.randn(2, 4).to(x))", None),
        ("net(x.cpu())", "wrong device"),
        ("net(x * torch.tensor(2.0))", None),
        ("net(torch.zeros_like(x) + x.new_ones(4))", None),
        ("table(torch.arange(3))", "wrong device"),
        ("torch.nn.functional.one_hot(torch.tensor([1], device='cuda'), 4) + x", None),
        ("table(torch.arange(3, device='cuda'))", None),
        ("x[torch.tensor([0])] + 1", None),
        ("x.cpu().numpy(); x.cpu() + torch.ones(4)", None),
        ("net.cpu()(torch.randn(2, 4))", None),
        ("torch.set_default_device('cuda'); net(torch.randn(2, 4))", None),
    ],
)
def test_devices(traced, tmp_path, line, kind):
    """Tensors of the GPU and of the CPU in one op are refused, as on a GPU, and only where both are certain."""
    path = tmp_path / "devices.py"
    path.write_text(
        "import torch\n"
        "net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).half().to('cuda', torch.float32)\n"
        "table = torch.nn.Embedding(4, 4).cuda()\n"
        "x = torch.randn(2, 4).cuda()\n" + line + "\n"
    )
    answer = traced.ask({"kind": "script", "target": str(path)})

    assert (answer["error"] and answer["error"]["kind"]) == kind, answer["error"]


def test_moving_copies(traced, tmp_path):
    """A tensor moved to the GPU is another one: writing into it leaves the first alone."""
    path = tmp_path / "moving.py"
    path.write_text("import torch\na = torch.zeros(2)\nb = a.cuda()\nb += 1\nassert a.sum() == 0 and b.cuda() is b\n")

    assert traced.ask({"kind": "script", "target": str(path)})["error"] is None
