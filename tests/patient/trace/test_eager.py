"""Attention written out in the model's own ops is met as such; other products beside a softmax are not."""

import pytest

MODELS = '''
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, attend, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.router, self.codes = nn.Parameter(torch.randn(width, 8)), nn.Parameter(torch.randn(8, width))
        self.attend = attend

    def forward(self, x):
        return self.attend(self, x, *(p(x).unflatten(-1, (4, -1)).transpose(1, 2) for p in (self.q, self.k, self.v)))


def matmul(m, x, q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * 0.3, -1) @ v


def full(m, x, q, k, v):
    """Mask, soft cap, softmax in float32 and dropout, as large models do it."""
    scores = torch.tanh(torch.matmul(q, k.transpose(2, 3)) / 50) * 50 + torch.zeros(8, 8).triu()
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, 0.1, training=True), v)


def einsum(m, x, q, k, v):
    return torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1), v)


def one_head(m, x, q, k, v):
    return torch.softmax(torch.baddbmm(torch.zeros(1), q[0], k[0].mT), -1).bmm(v[0])


def routed(m, x, q, k, v):
    return torch.softmax(x @ m.router, -1) @ m.codes


def mixed_experts(m, x, q, k, v):
    return torch.bmm(torch.softmax(x @ m.router, -1), x[:, :8] * 2)


def linear_attention(m, x, q, k, v):
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def kernel(m, x, q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def build(which, dtype="float32"):
    model = nn.Sequential(Model(globals()[which]))
    return model.to(getattr(torch, dtype)), (torch.randn(2, 8, 32, dtype=getattr(torch, dtype)),)
'''


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "eager_models.py"
    path.write_text(MODELS)
    return str(path)


@pytest.mark.parametrize("rules", ["cpu", "fake"])
@pytest.mark.parametrize("which", ["matmul", "full", "einsum", "one_head"])
def test_met(traced, models, which, rules):
    """softmax(q k^T) v, however it is spelled, is one attention call without a kernel, told at its line."""
    answer = traced("build", file=models, which=which, rules=rules)
    (call,) = answer["attention"]

    assert (call["name"], call["written_out"], call["verdict"]) == ("eager attention", True, "clean")
    assert call["at"]["function"] == which
    assert call["head_dim"] == 8
    assert [call["operands"][role]["shape"][-2:] for role in "qkv"] == [[8, 8]] * 3
    assert next(step["call"] for step in call["operands"]["v"]["path"]) == "F.linear"


def test_backward_and_autocast(traced, models):
    """A backward pass multiplies the same weights again, and is no attention call; autocast's casts lie on the path."""
    answer = traced("build", file=models, which="matmul", backward=True, autocast="bfloat16")
    (call,) = answer["attention"]

    assert (call["calls"], call["operands"]["q"]["dtype"], call["autocast"]) == (1, "bfloat16", "bfloat16")


@pytest.mark.parametrize("which", ["routed", "mixed_experts", "linear_attention"])
def test_not_met(traced, models, which):
    """A router, a mixture of experts and linear attention multiply beside a softmax too."""
    answer = traced("build", file=models, which=which)

    assert (answer["attention"], answer["error"]) == ([], None)


def test_a_kernel_is_met_once(traced, models):
    """What a kernel computes inside is its own."""
    answer = traced("build", file=models, which="kernel", autocast="float16", backward=True)

    assert [call["name"] for call in answer["attention"]] == ["scaled_dot_product_attention"]


CACHED = """
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.kept = torch.zeros(2, 2, 4, 16, 8)

    @torch.inference_mode()
    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        self.kept = self.kept.to(q)
        self.kept[0, :, :, : x.shape[1]] = k
        self.kept[1, :, :, : x.shape[1]] = v
        k, v = self.kept[:, :, :, : x.shape[1]]
        return torch.matmul(torch.matmul(q, k.mT).softmax(-1), v)


def build():
    return Cached().bfloat16(), (torch.randn(2, 5, 32).bfloat16(),)
"""


def test_a_cache_in_inference_mode(traced, tmp_path):
    """matmul is met whole there, and what is written into slices of a cache is a hidden state when it is read."""
    path = tmp_path / "cached.py"
    path.write_text(CACHED)
    answer = traced("build", file=str(path))

    assert [(call["verdict"], call["written_out"]) for call in answer["attention"]] == [("clean", True)]
