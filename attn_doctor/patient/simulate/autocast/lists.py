"""The operations that CUDA's autocast casts, and how: from the installed torch's own header, or the copy in this file.

rules.py does the casting.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Optional, Tuple

import torch

LOWER, FP32, FP32_SET_DTYPE, FP32_APPEND_DTYPE, PROMOTE, BANNED = (
    "lower_precision_fp",
    "fp32",
    "fp32_set_opt_dtype",
    "fp32_append_dtype",
    "promote",
    "banned",
)

_MACROS = {
    "AT_FORALL_LOWER_PRECISION_FP": LOWER,
    "AT_FORALL_FP32": FP32,
    "AT_FORALL_FP32_SET_OPT_DTYPE": FP32_SET_DTYPE,
    "AT_FORALL_PROMOTE": PROMOTE,
}

# Registered op -> the overload with an output dtype to which CUDA redispatches. The header spells these as C++
# signatures, which are not worth parsing for three operations.
APPEND_DTYPE = {
    "norm.Scalar": "norm.ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "norm.names_ScalarOpt_dim_dtype",
}

# Registered in autocast_mode.cpp outside the macros. A CPU tensor never reaches them; listed so that `unlisted` is
# empty unless an operation is really not understood.
BESIDE_THE_MACROS = {
    "cudnn_convolution": LOWER,
    "cudnn_convolution_transpose": LOWER,
    "_cudnn_rnn": LOWER,  # autocast's RNN.cpp, only in CUDA builds
    # torch 2.15; the dtype that its own AutocastCUDA kernel gave for a fake CUDA tensor.
    "linalg_matrix_sqrth": FP32,
    "binary_cross_entropy": BANNED,
}

# The combined lists of ATen/autocast_mode.h in torch 2.6.0, 2.9.1 and 2.13.0. An entry that an installed torch does not
# register for CUDA (rms_norm before 2.13, the Dimname overloads from 2.13 on) is dropped when the rules load.
# https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.h
_EMBEDDED = {
    LOWER: """
        _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum
        mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
        _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
        _scaled_dot_product_flash_attention scaled_dot_product_attention
    """,
    FP32: """
        acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
        pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm
        frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
        cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
        huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
        triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
        logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
        _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
        upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
        _upsample_bicubic2d_aa
    """,
    FP32_SET_DTYPE: """
        prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int
        log_softmax.Dimname cumprod cumprod.dimname cumsum cumsum.dimname linalg_vector_norm
        linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList sum.dim_DimnameList
    """,
    PROMOTE: "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add",
}


def lists_in_header(text: str) -> Optional[Dict[str, Tuple[str, ...]]]:
    """Policy -> op names ("pow.Tensor_Scalar") in the text of autocast_mode.h; None when a macro is missing.

    Releases with the lists in autocast_mode.cpp have a header without the macros.
    """
    joined = text.replace("\\\n", " ")
    found: Dict[str, Tuple[str, ...]] = {}
    for macro, policy in _MACROS.items():
        line = re.search(r"^#define {}\(_\)(.*)$".format(macro), joined, re.MULTILINE)
        entries = re.findall(r"_\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)", line.group(1)) if line else []
        if not entries:
            return None
        found[policy] = tuple(op + "." + overload if overload else op for op, overload in entries)
    return found


def installed_lists() -> Tuple[Dict[str, Tuple[str, ...]], str]:
    """The lists, and their source in words."""
    version = str(torch.__version__)
    header = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")
    try:
        with open(header, encoding="utf-8") as file:
            lists = lists_in_header(file.read())
        trouble = "has no op lists"
    except OSError as error:
        lists, trouble = None, "could not be read ({})".format(error.strerror)
    if lists is not None:
        return lists, "include/ATen/autocast_mode.h of torch " + version
    embedded = {policy: tuple(names.split()) for policy, names in _EMBEDDED.items()}
    return embedded, "embedded lists of torch 2.6 to 2.13 (the autocast_mode.h of torch {} {})".format(version, trouble)
