"""Under autocast an op on a list goes by its list, whatever dtype the parameters beside it have."""

import pytest

from tests.patient.trace.conftest import culprit

ASK = "from tests.patient.trace import listed_ops\nanswer = listed_ops.answers({!r}, {!r})"


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("parameter", ["float32", "half"])
def test_every_listed_op(traced, half, parameter):
    """All ops of the installed torch's lists: float32 lists blame the rule, the promote list blames the parameter
    and only one that is wide, and the list of halves blames nobody."""
    parameter = half if parameter == "half" else parameter

    found = traced.run(ASK.format(half, parameter))

    assert len(found) > 100
    for name, (policy, dtype, told) in found.items():
        if policy == "lower_precision_fp" or (policy == "promote" and parameter == half):
            assert (dtype, told) == (half, None), name
        elif policy == "promote":
            assert (dtype, told[0]) == ("float32", "mixed operands"), name
            assert "other" in told[2], name
        else:
            assert (dtype, told[0], told[1]) == ("float32", "autocast policy", name.partition(".")[0]), name


def test_norm_of_q(traced):
    """A LayerNorm on q with float32 parameters is autocast's doing: casting its weight would change nothing."""
    answer = traced("query_norm", autocast="bfloat16")
    found = culprit(answer, "q")

    assert answer["verdict"] == "silently mixed"
    assert (found["call"], found["kind"]) == ("F.layer_norm", "autocast policy")
    assert [(b["kind"], b["op"], b["name"]) for b in found["born"]] == [("autocast policy", "layer_norm", None)]


def test_norm_of_q_without_autocast(traced):
    """The same model in halves, with a norm that was kept in float32, refuses by itself or promotes by its weight."""
    answer = traced("query_norm", dtype="bfloat16")

    assert (answer["verdict"], answer["promotions"]) == ("clean", [])
