"""A call of every op that CUDA's autocast lists, with a hidden state in half precision and a parameter beside it.

Run in the tracer's process: `answers(half, parameter)` gives for each call the policy that this torch's list names,
the dtype that came out, and what provenance says made it so.
"""

import importlib

import torch
import torch.nn.functional as F

_aten = torch.ops.aten


def _image(x):
    return x.view(1, 1, 8, 8)


def _volume(x):
    return x.view(1, 1, 4, 4, 4)


def _target(x):
    return torch.zeros(x.shape[0], dtype=torch.long)


def _ones(x):
    return torch.ones(x.shape[0], dtype=torch.long)


def _weights(p, *shape):
    return p.flatten().repeat(8)[: torch.Size(shape).numel()].view(shape)


def _cell(kind):
    def call(x, p):
        w = _weights(p, 8, 8)
        return getattr(torch, kind)(x, x * 0.5, w, w)

    return call


_UNARY = "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan"

CALLS = {
    # lower precision
    "conv1d": lambda x, p: F.conv1d(x.view(1, 8, 8), _weights(p, 8, 8, 1)),
    "conv2d": lambda x, p: F.conv2d(_image(x), _weights(p, 1, 1, 1, 1)),
    "conv3d": lambda x, p: F.conv3d(_volume(x), _weights(p, 1, 1, 1, 1, 1)),
    "conv_tbc": lambda x, p: torch.conv_tbc(x.view(8, 1, 8), _weights(p, 1, 8, 8), _weights(p, 8)),
    "conv_transpose1d": lambda x, p: F.conv_transpose1d(x.view(1, 8, 8), _weights(p, 8, 8, 1)),
    "conv_transpose2d.input": lambda x, p: F.conv_transpose2d(_image(x), _weights(p, 1, 1, 1, 1)),
    "conv_transpose3d.input": lambda x, p: F.conv_transpose3d(_volume(x), _weights(p, 1, 1, 1, 1, 1)),
    "convolution": lambda x, p: torch.convolution(
        _image(x), _weights(p, 1, 1, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    ),
    "prelu": lambda x, p: F.prelu(x, _weights(p, 8)),
    "addmm": lambda x, p: torch.addmm(p, x, p),
    "addmv": lambda x, p: torch.addmv(x[0], x, p[0]),
    "addr": lambda x, p: torch.addr(x, x[0], p[0]),
    "matmul": lambda x, p: x @ p,
    "einsum": lambda x, p: torch.einsum("ij,jk->ik", x, p),
    "mm": lambda x, p: torch.mm(x, p),
    "mv": lambda x, p: torch.mv(x, p[0]),
    "linalg_vecdot": lambda x, p: torch.linalg.vecdot(x, p),
    "linear": lambda x, p: F.linear(x, p, p[0]),
    "addbmm": lambda x, p: torch.addbmm(x, x.view(1, 8, 8), p.view(1, 8, 8)),
    "baddbmm": lambda x, p: torch.baddbmm(x.view(1, 8, 8), x.view(1, 8, 8), p.view(1, 8, 8)),
    "bmm": lambda x, p: torch.bmm(x.view(1, 8, 8), p.view(1, 8, 8)),
    "chain_matmul": lambda x, p: torch.chain_matmul(x, p, p),
    "linalg_multi_dot": lambda x, p: torch.linalg.multi_dot([x, p, p]),
    "gru_cell": lambda x, p: torch.gru_cell(x, x * 0.5, _weights(p, 24, 8), _weights(p, 24, 8)),
    "lstm_cell": lambda x, p: torch.lstm_cell(x, (x * 0.5, x * 0.5), _weights(p, 32, 8), _weights(p, 32, 8))[0],
    "rnn_tanh_cell": _cell("rnn_tanh_cell"),
    "rnn_relu_cell": _cell("rnn_relu_cell"),
    # float32
    **{name: (lambda x, p, name=name: getattr(torch, name)(x)) for name in _UNARY.split()},
    "pow.Tensor_Scalar": lambda x, p: x**2,
    "pow.Tensor_Tensor": lambda x, p: x**p,
    "pow.Scalar": lambda x, p: 2.0**x,
    "softplus": lambda x, p: F.softplus(x),
    "layer_norm": lambda x, p: F.layer_norm(x, (8,), p[0], p[1]),
    "native_layer_norm": lambda x, p: torch.native_layer_norm(x, (8,), p[0], p[1], 1e-5)[0],
    "rms_norm": lambda x, p: F.rms_norm(x, (8,), p[0]),
    "group_norm": lambda x, p: F.group_norm(x, 2, p[0], p[1]),
    "frobenius_norm.dim": lambda x, p: torch.frobenius_norm(x, dim=[0, 1]),
    "nuclear_norm": lambda x, p: torch.nuclear_norm(x),
    "nuclear_norm.dim": lambda x, p: torch.nuclear_norm(x, dim=[0, 1]),
    "cosine_similarity": lambda x, p: F.cosine_similarity(x, p),
    "poisson_nll_loss": lambda x, p: F.poisson_nll_loss(x, p, reduction="none"),
    "cosine_embedding_loss": lambda x, p: F.cosine_embedding_loss(x, p, _ones(x)),
    "nll_loss": lambda x, p: F.nll_loss(x, _target(x), p[0]),
    "nll_loss2d": lambda x, p: torch._C._nn.nll_loss2d(_image(x), torch.zeros(1, 8, 8, dtype=torch.long), p[0, :1]),
    "hinge_embedding_loss": lambda x, p: F.hinge_embedding_loss(x, p.sign()),
    "kl_div": lambda x, p: F.kl_div(x, p, reduction="sum"),
    "l1_loss": lambda x, p: F.l1_loss(x, p),
    "smooth_l1_loss": lambda x, p: F.smooth_l1_loss(x, p),
    "huber_loss": lambda x, p: F.huber_loss(x, p),
    "mse_loss": lambda x, p: F.mse_loss(x, p, reduction="none"),
    "margin_ranking_loss": lambda x, p: F.margin_ranking_loss(x, p, torch.ones(8, 8, dtype=torch.long)),
    "multilabel_margin_loss": lambda x, p: F.multilabel_margin_loss(x, torch.zeros(8, 8, dtype=torch.long)),
    "soft_margin_loss": lambda x, p: F.soft_margin_loss(x, p),
    "triplet_margin_loss": lambda x, p: F.triplet_margin_loss(x, p, p * 0.5),
    "multi_margin_loss": lambda x, p: F.multi_margin_loss(x, _target(x), weight=p[0]),
    "binary_cross_entropy_with_logits": lambda x, p: F.binary_cross_entropy_with_logits(x, p),
    "dist": lambda x, p: torch.dist(x, p),
    "pdist": lambda x, p: F.pdist(x),
    "cdist": lambda x, p: torch.cdist(x, p),
    "renorm": lambda x, p: torch.renorm(x, 2, 0, 1.0),
    "logsumexp": lambda x, p: torch.logsumexp(x, -1),
    "upsample_nearest1d": lambda x, p: F.interpolate(x.view(1, 8, 8), 16),
    "_upsample_nearest_exact1d": lambda x, p: F.interpolate(x.view(1, 8, 8), 16, mode="nearest-exact"),
    "upsample_nearest2d": lambda x, p: F.interpolate(_image(x), 16),
    "_upsample_nearest_exact2d": lambda x, p: F.interpolate(_image(x), 16, mode="nearest-exact"),
    "upsample_nearest3d": lambda x, p: F.interpolate(_volume(x), 8),
    "_upsample_nearest_exact3d": lambda x, p: F.interpolate(_volume(x), 8, mode="nearest-exact"),
    "upsample_linear1d": lambda x, p: F.interpolate(x.view(1, 8, 8), 16, mode="linear"),
    "upsample_bilinear2d": lambda x, p: F.interpolate(_image(x), 16, mode="bilinear"),
    "_upsample_bilinear2d_aa": lambda x, p: F.interpolate(_image(x), 4, mode="bilinear", antialias=True),
    "upsample_trilinear3d": lambda x, p: F.interpolate(_volume(x), 8, mode="trilinear"),
    "upsample_bicubic2d": lambda x, p: F.interpolate(_image(x), 16, mode="bicubic"),
    "_upsample_bicubic2d_aa": lambda x, p: F.interpolate(_image(x), 4, mode="bicubic", antialias=True),
    "norm.Scalar": lambda x, p: _aten.norm.Scalar(x),
    "norm.ScalarOpt_dim": lambda x, p: x.norm(dim=-1),
    # float32 unless another dtype is named
    "prod": lambda x, p: x.prod(),
    "prod.dim_int": lambda x, p: x.prod(-1),
    "softmax.int": lambda x, p: F.softmax(x, -1),
    "log_softmax.int": lambda x, p: x.log_softmax(-1),
    "cumprod": lambda x, p: x.cumprod(0),
    "cumsum": lambda x, p: torch.cumsum(x, 0),
    "linalg_vector_norm": lambda x, p: F.normalize(x, dim=-1),
    "linalg_matrix_norm": lambda x, p: torch.linalg.matrix_norm(x, 1),
    "linalg_matrix_norm.str_ord": lambda x, p: torch.linalg.matrix_norm(x, "fro"),
    "sum": lambda x, p: x.sum(),
    "sum.dim_IntList": lambda x, p: x.sum(-1, keepdim=True),
    # the widest operand's
    "addcdiv": lambda x, p: torch.addcdiv(x, x, p),
    "addcmul": lambda x, p: x.addcmul(x, p),
    "atan2": lambda x, p: torch.atan2(x, p),
    "bilinear": lambda x, p: F.bilinear(x, x, _weights(p, 4, 8, 8)),
    "cross": lambda x, p: torch.cross(x[:, :3], p[:, :3], dim=-1),
    "dot": lambda x, p: torch.dot(x[0], p[0]),
    "vdot": lambda x, p: torch.vdot(x[0], p[0]),
    "grid_sampler": lambda x, p: F.grid_sample(_image(x), _weights(p, 1, 4, 4, 2), align_corners=False),
    "index_put": lambda x, p: torch.index_put(x, (torch.tensor([0]),), p[:1]),
    "tensordot": lambda x, p: torch.tensordot(x, p, 1),
    "scatter_add": lambda x, p: torch.scatter_add(x, 0, torch.zeros(8, 8, dtype=torch.long), p),
}

NOT_CALLED = {
    "_convolution.deprecated": "of old saved models",
    "_convolution": "what conv1d and its kin call",
    "_thnn_fused_lstm_cell": "runs on a GPU alone",
    "_thnn_fused_gru_cell": "runs on a GPU alone",
    "_scaled_dot_product_flash_attention": "runs on a GPU alone",
    "cudnn_convolution": "runs on a GPU alone",
    "cudnn_convolution_transpose": "runs on a GPU alone",
    "_cudnn_rnn": "runs on a GPU alone",
    "scaled_dot_product_attention": "an attention call, which the boundaries meet",
    "binary_cross_entropy": "refused under autocast",
    "linalg_matrix_sqrth": "newer than this table",
}


def answers(half, parameter):
    """{op: [policy, dtype that came out, None or [kind, op of the rule, names of the parameters blamed]]}."""
    ours = "_attn_doctor_patient."
    rules = importlib.import_module(ours + "simulate.autocast.rules")
    provenance = importlib.import_module(ours + "trace.read.provenance")
    recorder = importlib.import_module(ours + "trace.record.recorder").Recorder()
    modules = importlib.import_module(ours + "trace.record.modules").Modules(recorder)
    recorder.autocast_device = "cpu"
    model = torch.nn.Linear(8, 8)
    model.other = torch.nn.Parameter(torch.rand(8, 8).to(getattr(torch, parameter)))
    found = {}
    with rules.cuda_autocast_rules() as held, torch.no_grad():
        modules.index(model)
        with recorder, torch.autocast("cuda", dtype=getattr(torch, half)):
            for name, policy in held.policies.items():
                if name in NOT_CALLED:
                    continue
                x = model(torch.rand(8, 8)).sigmoid()
                out = CALLS[name](x, model.other)
                told = None
                unit = provenance.promotion_of(recorder.node(out))
                if unit is not None and out.dtype != x.dtype:
                    one = provenance.describe_promotion(unit)
                    told = [one["kind"], one["born"][0]["op"], [birth["name"] for birth in one["born"]]]
                found[name] = [policy, str(out.dtype).replace("torch.", ""), told]
    return found
