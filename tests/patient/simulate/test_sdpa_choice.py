"""Which backend SDPA takes, on which GPU, in which torch."""

import dataclasses

import pytest

from attn_doctor.patient.simulate.cuda import simulated_gpu
from attn_doctor.patient.simulate.sdpa.choice import CUDNN, EFFICIENT, FLASH, MATH, Call, Tensor, choose

GPU = {
    cc: simulated_gpu.from_request({"compute_capability": cc})
    for cc in ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"]
}


def call(dtype="bfloat16", length=128, head_dim=64, key_length=None, heads=8, key_heads=None, **more):
    query = Tensor((2, heads, length, head_dim), dtype)
    key = Tensor((2, key_heads or heads, key_length or length, head_dim), dtype)
    return Call(query, key, key, **more)


def training(made):
    return dataclasses.replace(made, query=dataclasses.replace(made.query, requires_grad=True))


@pytest.mark.parametrize(
    ("capability", "version", "backend"),
    [
        ("8.0", "2.6.0", FLASH),
        ("8.0", "2.13.0+cu130", FLASH),
        ("9.0", "2.4.1", FLASH),
        ("9.0", "2.6.0", FLASH),
        ("9.0", "2.9.1", CUDNN),
        ("9.0", "2.10.0", FLASH),  # its wheel brings cuDNN 9.10.2, and it wants more than 9.15
        ("9.0", "2.11.0", CUDNN),
        ("10.0", "2.11.0", CUDNN),
        ("12.0", "2.11.0", FLASH),
        ("12.0", "2.6.0", MATH),  # neither flash nor mem-efficient knows the GPU
        ("12.0", "2.9.1", FLASH),
        ("7.5", "2.13.0", MATH),
        ("7.0", "2.6.0", MATH),
    ],
)
def test_bf16(capability, version, backend):
    """A plain bfloat16 call takes the backend that the release takes on that GPU."""
    choice = choose(call(), GPU[capability], version)

    assert (backend, True) == (choice.backend, choice.certain)


@pytest.mark.parametrize("version", ["2.6.0", "2.9.1", "2.13.0"])
def test_fp16_on_turing(version):
    """On 7.5 float16 is mem-efficient's: flash names the GPU that it was asked to run on."""
    choice = choose(call("float16"), GPU["7.5"], version)

    assert choice.backend == EFFICIENT
    assert "Attempting to run on a sm 7.5 gpu." in choice.refused[FLASH]


@pytest.mark.parametrize("capability", ["8.0", "9.0", "12.0"])
def test_fp32_never_raises(capability):
    """float32 falls silently to the mem-efficient kernel, and flash says which dtypes it takes."""
    choice = choose(call("float32"), GPU[capability], "2.9.1")

    assert choice.backend == EFFICIENT
    assert choice.refused[FLASH] == (
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float, "
        "Key dtype: float, and Value dtype: float instead."
    )


def test_bf16_on_turing_is_refused_by_mem_efficient():
    """Below 8.0 the mem-efficient kernel takes float16 and float32 only."""
    choice = choose(call(), GPU["7.5"], "2.9.1")

    assert "{Half, Float}" in choice.refused[EFFICIENT]
    assert "c10::BFloat16" in choice.refused[EFFICIENT]


def test_a_mask_rules_flash_out():
    """With a mask flash is out; where cuDNN comes first it stays in."""
    masked = call(mask=Tensor((2, 1, 128, 128), "bool"))

    assert choose(masked, GPU["8.0"], "2.13.0").backend == EFFICIENT
    assert choose(masked, GPU["8.0"], "2.13.0").refused[FLASH] == "Flash Attention does not support non-null attn_mask."
    assert choose(masked, GPU["9.0"], "2.13.0").backend == CUDNN


def test_a_float32_mask_beside_halves_is_warned_of():
    """The dtype check lets it pass, cuDNN then computes nonsense and mem-efficient raises: the choice says so."""
    masked = call(mask=Tensor((2, 1, 128, 128), "float32"))

    assert "wrong values" in choose(masked, GPU["9.0"], "2.11.0").warnings[0]
    assert "invalid dtype for bias" in choose(masked, GPU["8.0"], "2.11.0").warnings[0]
    assert choose(call(mask=Tensor((2, 1, 128, 128), "bfloat16")), GPU["9.0"], "2.11.0").warnings == ()


def test_math_refuses_mask_and_causal_together():
    """Where only math is left, a mask beside is_causal raises, in the words of the installed torch."""
    torch = pytest.importorskip("torch")
    mask = Tensor((128, 128), "bool")

    choice = choose(call(head_dim=500, mask=mask, causal=True), GPU["7.5"], "2.9.1")
    q, ones = torch.zeros(1, 1, 4, 8), torch.ones(4, 4).bool()
    only_math = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with only_math, pytest.raises(RuntimeError) as raised:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=ones, is_causal=True)

    assert choice.backend == MATH
    assert str(raised.value).splitlines()[0] in choice.warnings[0]


def test_causal_with_unequal_lengths():
    """is_causal with another number of keys is not flash's."""
    choice = choose(call(length=1, key_length=128, causal=True), GPU["8.0"], "2.9.1")

    assert choice.backend == EFFICIENT
    assert "seqlen_q != seqlen_k. Got seqlen_q: 1 seqlen_k: 128." in choice.refused[FLASH]


@pytest.mark.parametrize(
    ("capability", "version", "head_dim", "dropout", "flash"),
    [
        ("8.6", "2.6.0", 256, 0.0, True),
        ("8.6", "2.6.0", 256, 0.1, False),
        ("8.9", "2.9.1", 208, 0.0, False),
        ("8.9", "2.9.1", 192, 0.1, True),
        ("8.0", "2.9.1", 208, 0.1, True),
        ("12.0", "2.9.1", 208, 0.0, False),
        ("9.0", "2.6.0", 208, 0.1, True),
    ],
)
def test_training_with_wide_heads(capability, version, head_dim, dropout, flash):
    """Small GPUs cannot train with the widest heads: refused at the forward pass, and only when training."""
    made = call(head_dim=head_dim, dropout=dropout)

    assert flash == (FLASH not in choose(training(made), GPU[capability], version).refused)
    assert FLASH not in choose(made, GPU[capability], version).refused
    off = dataclasses.replace(training(made), grad_mode=False)
    assert FLASH not in choose(off, GPU[capability], version).refused


@pytest.mark.parametrize("head_dim", [257, 264, 512])
def test_heads_wider_than_256(head_dim):
    """Nothing but mem-efficient and math takes heads wider than 256."""
    choice = choose(call(head_dim=head_dim), GPU["9.0"], "2.13.0")

    assert (EFFICIENT if head_dim % 8 == 0 else MATH) == choice.backend
    assert "less than or equal to 256" in choice.refused[FLASH]
    assert choice.refused[CUDNN].startswith("head_dim should be no more than")


def test_odd_heads():
    """A head dim that does not divide by 8 is flash's, which pads it, and not mem-efficient's."""
    choice = choose(call(head_dim=60), GPU["8.0"], "2.9.1")

    assert choice.backend == FLASH
    assert "divisible by 8" in choice.refused[EFFICIENT]
    assert choice.refused[CUDNN] == "head_dim should be a multiple of 8"


def test_grouped_queries():
    """Fewer key heads need enable_gqa, or every fused kernel is out."""
    without = choose(call(heads=8, key_heads=2), GPU["8.0"], "2.9.1")
    grouped = choose(call(heads=8, key_heads=2, enable_gqa=True), GPU["8.0"], "2.9.1")

    assert (without.backend, grouped.backend) == (MATH, FLASH)
    assert EFFICIENT in grouped.refused
    assert choose(call(heads=8, key_heads=3, enable_gqa=True), GPU["8.0"], "2.9.1").backend == MATH


def test_a_strided_last_dimension():
    """A transposed head dim is nobody's but math's, and the strides are named."""
    made = call()
    made = dataclasses.replace(made, query=dataclasses.replace(made.query, strides=(65536, 8192, 1, 128)))

    choice = choose(made, GPU["8.0"], "2.9.1")

    assert choice.backend == MATH
    assert "Got Query.stride(-1): 128, Key.stride(-1): 1" in choice.refused[FLASH]


def test_three_dimensions():
    """Without a heads dimension only math is left."""
    flat = Tensor((2, 128, 64), "bfloat16")

    choice = choose(Call(flat, flat, flat), GPU["9.0"], "2.13.0")

    assert choice.backend == MATH
    assert "to be 4 dimensional, but got Query dim: 3" in choice.refused[FLASH]


@pytest.mark.parametrize(
    ("capability", "version", "word"), [("9.0", "2.7.1", "prefers cuDNN"), ("12.1", "2.7.0", "newest GPU")]
)
def test_what_is_not_verified_is_not_certain(capability, version, word):
    """Where the release was not read and it decides, the answer says so."""
    choice = choose(call(), GPU[capability], version)

    assert not choice.certain
    assert word in " ".join(choice.doubts)


def test_doubts_that_cannot_matter_are_not_told():
    """A doubt about cuDNN's place does not touch a call that cuDNN cannot take."""
    assert choose(call("float32"), GPU["9.0"], "2.7.1").certain


def test_the_installed_cudnn_decides():
    """A newer cuDNN than the wheel's own changes the order, an older one too."""
    assert choose(call(), GPU["9.0"], "2.10.0", cudnn_version=91900).backend == CUDNN
    assert choose(call(), GPU["9.0"], "2.11.0", cudnn_version=91002).backend == FLASH


def test_an_old_torch_is_refused():
    """Rules that were not read are not made up."""
    with pytest.raises(ValueError, match=r"2\.1 is the oldest"):
        choose(call(), GPU["8.0"], "2.0.1")


UNFIT = {
    "mixed": {"key": Tensor((1, 2, 4, 8), "float32")},
    "flat": {"query": Tensor((8,), "float16")},
    "mask": {"mask": Tensor((4, 4), "float64")},
}


@pytest.mark.parametrize("case", UNFIT)
def test_errors_before_any_backend_are_torchs_own(case):
    """The error that is named is the one that the installed torch raises, word for word."""
    torch = pytest.importorskip("torch")
    plain = Tensor((1, 2, 4, 8), "float16")
    made = dataclasses.replace(Call(plain, plain, plain), **UNFIT[case])

    def real(tensor):
        return None if tensor is None else torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype))

    with pytest.raises(RuntimeError) as raised:
        torch.nn.functional.scaled_dot_product_attention(
            *map(real, made.tensors), attn_mask=real(made.mask), is_causal=made.causal
        )
    choice = choose(made, GPU["9.0"], torch.__version__)

    assert None is choice.backend
    assert str(raised.value).splitlines()[0].strip() == choice.error.strip()
