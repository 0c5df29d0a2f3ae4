"""The form of an attention call: what its arguments say, whatever they are."""

FLAGS = """
import torch
from _attn_doctor_patient.trace.meet.forms import flags_of
tensor = torch.ones(2, 3)
answer = [
    flags_of({"p": tensor, "causal": tensor, "softcap": tensor, "enable_gqa": tensor, "scale": tensor}),
    flags_of({"p": 0.1, "causal": True, "softcap": 30, "enable_gqa": True, "scale": 0.5}),
    flags_of({"dropout_p": None, "p": 0.2, "is_causal": None}),
]
"""


def test_what_is_no_number_is_no_option(traced):
    """A function of one's own may call a tensor `p`, as the backward pass of fla's GSA does: that raises nothing."""
    tensors, numbers, nothing = traced.run(FLAGS)
    none = {"causal": False, "dropout": 0.0, "scale": None, "softcap": None, "gqa": False}

    assert {name: tensors[name] for name in none} == none
    assert (numbers["causal"], numbers["dropout"], numbers["scale"]) == (True, 0.1, 0.5)
    assert (numbers["softcap"], numbers["gqa"]) == (30.0, True)
    assert (nothing["causal"], nothing["dropout"]) == (False, 0.2)
