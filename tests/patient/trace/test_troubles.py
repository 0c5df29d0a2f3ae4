"""Broken targets: one clear record saying how far the trace came, and what was seen until then."""

import pytest


@pytest.mark.parametrize(
    ("factory", "kind", "part"),
    [
        ("nowhere", "factory not found", "it has: "),
        ("nothing", "factory returned something else", "returned a NoneType"),
        ("without_inputs", "factory without inputs", "(module, args)"),
        ("raising", "factory raised", "the data set is gone"),
        ("exiting", "exit", "exit(3)"),
    ],
)
def test_nothing_was_traced(traced, factory, kind, part):
    """A factory that gives nothing to run is told apart, and nothing is claimed."""
    answer = traced(factory)

    assert (answer["outcome"], answer["verdict"]) == ("could not run", None)
    assert answer["error"]["kind"] == kind
    assert part in answer["error"]["words"]


@pytest.mark.parametrize(
    ("factory", "kind", "calls"),
    [
        ("printing_and_exiting", "exit", 1),
        ("needing_a_gpu", "cannot simulate", 1),
        ("mismatched_linear", "dtype mismatch", 0),
        ("meta_inputs", "wrong device", 0),
    ],
)
def test_how_far_it_came(traced, factory, kind, calls):
    """A model that ends early leaves what was seen, and a sentence with how far it came."""
    answer = traced(factory)

    assert answer["outcome"] == "raised"
    assert answer["error"]["kind"] == kind
    assert answer["progress"]["attention_calls"] == len(answer["attention"]) == calls
    assert f"{calls} attention call{'' if calls == 1 else 's'} (" in answer["error"]["words"]


@pytest.mark.parametrize("rules", ["cpu", "fake"])
def test_linear(traced, rules):
    """A Linear whose operands differ is named with both, on fake tensors as on real ones."""
    failure = traced("mismatched_linear", rules=rules)["failure"]

    assert failure["mixed"]
    assert failure["call"] == "F.linear"
    assert "float32 into float16" in failure["at"]["source"]
    assert [(o["name"], o["dtype"]) for o in failure["operands"][:2]] == [("x", "float32"), ("lower.weight", "float16")]


def test_where_it_ended_and_why(traced):
    """The sentence about an error names its type, its line and, of one raised from another, what came first."""
    words = traced("wrapping")["error"]["words"]

    assert "ImportError at " in words
    assert "models.py:" in words
    assert words.endswith("the weights; caused by OSError: the disk is gone")


def test_shapes_are_no_dtypes(traced):
    """A call whose operands differ in dtype, and that fails for their shapes, is no dtype mismatch."""
    answer = traced("shapes_that_differ")

    assert answer["failure"]["mixed"]
    assert answer["error"]["kind"] == "model raised"


def test_made_on_the_way(traced):
    """A tensor that torch.tensor made while the model ran is a constant of its line, not something from before."""
    (call,) = traced("scaled_by_a_new_tensor")["attention"]

    assert [birth["kind"] for birth in call["operands"]["q"]["born"]] == ["constant"]
    assert "torch.tensor([" in call["operands"]["q"]["born"][0]["at"]["source"]


def test_the_rule_is_the_functions_own(traced):
    """Autocast's rule is named by the function that has it, and by the op inside where the function has none."""
    rules = traced.run("import torch; answer = torch._C._dispatch_get_registrations_for_dispatch_key('AutocastCUDA')")
    for factory, function, inside in (("rms_normed", "rms_norm", "pow"), ("layer_normed", "layer_norm", None)):
        (promotion,) = traced(factory, autocast="bfloat16")["promotions"] or [None]
        if promotion is None:  # a torch whose rms_norm gives back what it took
            continue
        assert promotion["born"][0]["op"] == (function if "aten::" + function in rules else inside)


def test_backward_without_gradients(traced):
    """A backward pass that cannot start is said to be that."""
    assert traced("frozen", backward=True)["error"]["kind"] == "nothing to go back from"


def test_unknown_targets(traced):
    """Words that mean no target are usage errors, and a missing module is named."""
    assert traced.ask({"kind": "factory", "target": "nothing"})["error"]["kind"] == "usage"
    assert "'no_such_module'" in traced.ask({"kind": "factory", "target": "no_such_module:x"})["error"]["message"]
    assert traced.ask({"kind": "hf", "target": "/nowhere"})["error"]["kind"] in ("config not found", "library missing")
    assert traced("plain", gpu={"compute_capability": "99.9"})["error"]["kind"] == "usage"
    assert traced("plain", rules="mine")["error"]["kind"] == "usage"
    assert traced("plain", dtype="float12")["error"]["kind"] == "usage"
    assert traced.ask({"kind": "script", "target": "/nowhere.py"})["error"]["kind"] == "script not found"


def test_everything_is_put_back(traced):
    """After traces, torch is as it was: nothing of the rules, the GPU or the recorder stays behind."""
    before = traced.run(STATE)
    traced("normalised", autocast="float16")
    traced("raising")

    assert traced.run(STATE) == before


STATE = """
import sys, torch
names = [torch.nn.Module.__call__, torch.nn.functional.scaled_dot_product_attention, torch.cuda.is_available,
         torch.autograd.Function.__dict__['apply'], torch.compile, torch.Generator, torch.autocast.__init__,
         torch.cuda.get_device_name, torch.set_default_device]
with torch.autocast("cpu", dtype=torch.bfloat16):
    cast = torch.nn.functional.normalize(torch.ones(2, 2).bfloat16()).dtype
answer = [repr(names), [repr(f) for f in sys.meta_path], str(cast), "flash_attn" in sys.modules,
          torch._C._len_torch_function_stack(), len(torch.utils._python_dispatch._get_current_dispatch_mode_stack())]
"""
