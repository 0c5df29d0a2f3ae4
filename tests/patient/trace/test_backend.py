"""Which of SDPA's backends a call would get on the GPU whose rules hold, and why not the others."""

import pytest

CALLS = """
import torch
from torch.nn import functional as F


def call(kind="bfloat16", mask=None, length=8, dim=16, only=None, causal=False, autocast=None, grad=False):
    q, k, v = (torch.randn(1, 2, length, dim, dtype=getattr(torch, kind), requires_grad=grad) for _ in range(3))
    given = None if mask is None else torch.zeros(length, length, dtype=getattr(torch, mask))

    def run():
        from torch.nn.attention import SDPBackend, sdpa_kernel

        allowed = [getattr(SDPBackend, only)] if only else list(SDPBackend.__members__.values())[1:]
        with sdpa_kernel([b for b in allowed if b.name != "OVERRIDEABLE"]):
            return F.scaled_dot_product_attention(q, k, v, given, is_causal=causal)

    return run
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "calls.py"
    path.write_text(CALLS)
    return str(path)


def asked(traced, calls, gpu="8.0", **options):
    answer = traced("call", file=calls, gpu={"compute_capability": gpu}, **options)
    (call,) = answer["attention"]
    return call, call["backend"]


@pytest.mark.parametrize(
    ("gpu", "options", "taken"),
    [
        ("8.0", {}, "flash"),
        ("8.0", {"kind": "float32"}, "efficient"),
        ("8.0", {"mask": "bfloat16"}, "efficient"),
        ("7.5", {}, "math"),  # bfloat16 before Ampere
        ("7.5", {"kind": "float16"}, "efficient"),
        ("8.0", {"dim": 20, "mask": "bfloat16"}, "math"),  # neither masks in flash nor 20 in the other
        ("8.0", {"kind": "float32", "autocast": "float16"}, "flash"),  # as autocast hands it on
    ],
)
def test_taken(traced, calls, gpu, options, taken):
    """The backend by torch's rules, for that GPU, with what autocast makes of the operands."""
    call, backend = asked(traced, calls, gpu, **options)

    assert backend["taken"] == taken
    assert taken not in backend["refused"]
    assert call["verdict"] in ("clean", "promoted then repaired")


def test_reasons(traced, calls):
    """Each backend that cannot take the call has torch's own reason."""
    _, backend = asked(traced, calls, "7.5")

    assert set(backend["refused"]) == {"flash", "efficient", "cudnn"}
    assert "gpu architectures in the range [sm80" in backend["refused"]["flash"]


def test_switched_off(traced, calls):
    """Backends that are switched off where the call is made are not taken; with none left the call raises."""
    _, backend = asked(traced, calls, only="MATH")
    assert backend["taken"] == "math"
    assert "switched off" in backend["refused"]["flash"]

    call, backend = asked(traced, calls, only="FLASH_ATTENTION", mask="bfloat16")
    assert (call["verdict"], backend["taken"]) == ("raises", None)
    assert call["error"]["message"] == "No available kernel. Aborting execution."
    assert backend["refused"]["flash"] == "Flash Attention does not support non-null attn_mask."


def test_mask_beside_causal(traced, calls):
    """math refuses a mask beside is_causal, and the dtypes are not to blame for it."""
    call, _ = asked(traced, calls, only="MATH", mask="bfloat16", causal=True)

    assert call["verdict"] == "raises"
    assert [clause["words"] for clause in call["contract"] if not clause["kept"]] == [
        "not both a mask and is_causal are given"
    ]
    assert not any(one["blamed"] for one in call["operands"].values())


def test_math_takes_a_float32_mask(traced, calls):
    """Where math is taken, a float32 mask beside half operands breaks nothing."""
    call, backend = asked(traced, calls, only="MATH", mask="float32")

    assert (call["verdict"], backend["taken"], backend["warnings"]) == ("clean", "math", [])
