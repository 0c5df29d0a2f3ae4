"""Calls whose dtype under CUDA autocast is known, with the dtype: for test_autocast_rules.

Run as a script it asks an independent witness, torch's own C++ kernels for AutocastCUDA, which run on fake
tensors whose fake device is "cuda" though no GPU is there; it prints `{call: dtype or "raises"}` as JSON.
"""

import json
import sys

import torch
import torch.nn.functional as F

H, S, D, N = torch.float16, torch.float32, torch.float64, torch.int64


class Make:
    """Tensors on one device, square (8, 8) unless told otherwise."""

    def __init__(self, device):
        self.device = device

    def __call__(self, dtype, *shape):
        if dtype is N:
            return torch.ones(shape or (8, 8), dtype=N, device=self.device)
        return torch.ones(shape or (8, 8), dtype=dtype, device=self.device)


CALLS = {
    # name: (call, dtype under torch.autocast("cuda", torch.float16))
    "normalize fp16": (lambda t: F.normalize(t(H), dim=-1), S),
    "layer_norm fp16": (lambda t: F.layer_norm(t(H), (8,)), S),
    "layer_norm fp16, fp32 weight": (lambda t: F.layer_norm(t(H), (8,), t(S, 8), t(S, 8)), S),
    "group_norm fp16": (lambda t: F.group_norm(t(H), 2), S),
    "softmax fp16": (lambda t: t(H).softmax(-1), S),
    "softmax fp16 to fp16": (lambda t: F.softmax(t(H), -1, dtype=H), H),
    "softmax int to fp16": (lambda t: F.softmax(t(N), -1, dtype=H), H),
    "log_softmax fp16": (lambda t: t(H).log_softmax(-1), S),
    "vector_norm fp16": (lambda t: torch.linalg.vector_norm(t(H), dim=-1), S),
    "norm fp16": (lambda t: t(H).norm(), S),
    "norm fp16, dim": (lambda t: t(H).norm(dim=-1), S),
    "norm.Scalar fp16": (lambda t: torch.ops.aten.norm.Scalar(t(H)), S),
    "norm.Scalar fp64": (lambda t: torch.ops.aten.norm.Scalar(t(D)), D),
    "norm.ScalarOpt_dim fp16": (lambda t: torch.ops.aten.norm.ScalarOpt_dim(t(H), None, [1]), S),
    "norm.ScalarOpt_dim fp16, p, keepdim": (lambda t: torch.ops.aten.norm.ScalarOpt_dim(t(H), 1, [1], True), S),
    "pow fp16, int": (lambda t: t(H) ** 2, S),
    "pow fp16, tensor": (lambda t: t(H) ** t(H), S),
    "pow scalar, fp16": (lambda t: 2.0 ** t(H), S),
    "exp fp16": (lambda t: t(H).exp(), S),
    "log fp16": (lambda t: t(H).log(), S),
    "rsqrt fp16": (lambda t: t(H).rsqrt(), S),
    "reciprocal fp16": (lambda t: t(H).reciprocal(), S),
    "sum fp16": (lambda t: t(H).sum(), S),
    "sum fp16, dim": (lambda t: t(H).sum(-1, keepdim=True), S),
    "sum fp16 to fp16": (lambda t: t(H).sum(dtype=H), H),
    "sum int": (lambda t: t(N).sum(), N),
    "sum fp64": (lambda t: t(D).sum(), D),
    "prod fp16": (lambda t: t(H).prod(), S),
    "cumsum fp16": (lambda t: t(H).cumsum(0), S),
    "cumsum int": (lambda t: t(N).cumsum(0), N),
    "cumprod fp16": (lambda t: t(H).cumprod(0), S),
    "softplus fp16": (lambda t: F.softplus(t(H)), S),
    "mse_loss fp16": (lambda t: F.mse_loss(t(H), t(H)), S),
    "cosine_similarity fp16": (lambda t: F.cosine_similarity(t(H), t(H)), S),
    "logsumexp fp16": (lambda t: t(H).logsumexp(-1), S),
    "exp fp64": (lambda t: t(D).exp(), D),
    "linear fp32": (lambda t: F.linear(t(S), t(S), t(S, 8)), H),
    "linear fp16, fp32 weight": (lambda t: F.linear(t(H), t(S), t(S, 8)), H),
    "matmul fp32": (lambda t: t(S) @ t(S), H),
    "matmul fp64": (lambda t: t(D) @ t(D), D),
    "mm fp16 x fp32": (lambda t: torch.mm(t(H), t(S)), H),
    "bmm fp32": (lambda t: torch.bmm(t(S, 2, 8, 8), t(S, 2, 8, 8)), H),
    "addmm fp32": (lambda t: torch.addmm(t(S), t(S), t(S)), H),
    "baddbmm fp32": (lambda t: torch.baddbmm(t(S, 2, 8, 8), t(S, 2, 8, 8), t(S, 2, 8, 8)), H),
    "einsum fp32": (lambda t: torch.einsum("ij,jk->ik", t(S), t(S)), H),
    "conv1d fp32": (lambda t: F.conv1d(t(S, 1, 4, 8), t(S, 4, 4, 3)), H),
    "sdpa fp32": (lambda t: F.scaled_dot_product_attention(*(t(S, 1, 2, 8, 8) for _ in "qkv")), H),
    "sdpa fp32, fp32, fp16": (
        lambda t: F.scaled_dot_product_attention(t(S, 1, 2, 8, 8), t(S, 1, 2, 8, 8), t(H, 1, 2, 8, 8)),
        H,
    ),
    "addcmul fp16": (lambda t: torch.addcmul(t(H), t(H), t(H)), H),
    "addcmul fp16, fp32 parameter": (lambda t: torch.addcmul(t(H), t(H), t(S)), S),
    "addcmul fp16, fp64 parameter": (lambda t: torch.addcmul(t(H), t(H), t(D)), D),
    "addcdiv fp16, fp32": (lambda t: torch.addcdiv(t(H), t(H), t(S)), S),
    "dot fp16, fp32": (lambda t: torch.dot(t(H, 8), t(S, 8)), S),
    "tensordot fp16, fp32": (lambda t: torch.tensordot(t(H), t(S), 1), S),
    "atan2 fp16, fp32": (lambda t: torch.atan2(t(H), t(S)), S),
    "cross fp16, fp32": (lambda t: torch.cross(t(H, 8, 3), t(S, 8, 3), dim=-1), S),
    "scatter_add fp16, fp32": (lambda t: torch.scatter_add(t(H), 0, t(N) * 0, t(S)), S),
    "index_put fp16, fp32": (lambda t: torch.index_put(t(H), (t(N, 2),), t(S, 8)), S),
    "bilinear fp16, fp32 bias": (lambda t: F.bilinear(t(H), t(H), t(H, 4, 8, 8), t(S, 4)), H),
    "sigmoid fp16": (lambda t: t(H).sigmoid(), H),
    "silu fp16": (lambda t: F.silu(t(H)), H),
    "gelu fp16": (lambda t: F.gelu(t(H)), H),
    "tanh fp16": (lambda t: t(H).tanh(), H),
    "cos fp16": (lambda t: t(H).cos(), H),
    "mean fp16": (lambda t: t(H).mean(), H),
    "mul fp16, fp32": (lambda t: t(H) * t(S), S),
    "mul fp16, fp32 scalar tensor": (lambda t: t(H) * t(S).select(0, 0).select(0, 0), H),
    "cat fp16, fp32": (lambda t: torch.cat([t(H), t(S)]), S),
    "stack fp16, fp32": (lambda t: torch.stack([t(H), t(S)]), S),
    "where fp16, fp32": (lambda t: torch.where(t(N) > 0, t(H), t(S)), S),
    "pad reflect fp16": (lambda t: F.pad(t(H), (1, 1), mode="reflect"), H),
    "exp int": (lambda t: t(N).exp(), S),
}

REFUSED = {
    "binary_cross_entropy": lambda t: F.binary_cross_entropy(t(H), t(H)),
    "addcmul with a third dtype": lambda t: torch.addcmul(t(torch.bfloat16), t(H), t(S)),
}


def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x).sum(dim=0)


def ask(call, device):
    try:
        return str(call(Make(device)).dtype)
    except Exception:
        return "raises"


def main():
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", H)
    answers = {}
    with torch.no_grad(), FakeTensorMode():
        for name, (call, _) in CALLS.items():
            answers[name] = ask(call, "cuda")
        for name, call in REFUSED.items():
            answers[name] = ask(call, "cuda")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
