"""A guard in a loop of one's own: what it says of planted faults, and that it leaves everything as it was."""

import json
import sys

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import attn_doctor  # noqa: E402
from attn_doctor.guarding import Guarding  # noqa: E402

SDPA = functional.scaled_dot_product_attention


class Layer(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.qkv, self.fault, self.calls = nn.Linear(32, 96), fault, 0

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).reshape(x.shape)


class Model(nn.Module):
    def __init__(self, fault=""):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer(fault if n == 1 else "") for n in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def kernel(monkeypatch):
    """Puts a function in the place of torch's, that is wrong from its nth call on."""

    def put(fault, since=0):
        number = [0]

        def wrong(q, k, v, **given):
            number[0] += 1
            out = SDPA(q, k, v, **given)
            if number[0] <= since:
                return out
            return fault(out, q, k, v, given)

        monkeypatch.setattr(functional, "scaled_dot_product_attention", wrong)

    return put


def train(steps=6, **options):
    model, told = Model(), []
    with attn_doctor.watch(**{"every": 2, **options}) as guard:
        for _ in range(steps):
            model(torch.randn(2, 12, 32)).pow(2).sum().backward()
            guard.step()
    return guard, told


def calls(guard):
    return [{**one["guarded"], "call": one} for one in guard.answer()["attention"]]


def test_a_sound_run_is_silent_and_leaves_torch_as_it_was(capfd):
    guard, _ = train()

    (one,) = calls(guard)
    assert (guard.told, guard.trouble, capfd.readouterr().err) == ([], None, "")
    assert (one["examined"], one["first_step"], one["last_step"]) == (6, 0, 4)
    assert one["call"]["modules"] == ["layers.0", "layers.1"]
    assert one["call"]["backend"]["taken"] in ("flash", "math")
    assert one["shadowed_rows"] >= 12
    assert one["wrong_rows"] == one["nonfinite_rows"] == one["nan_gradients"] == 0
    assert functional.scaled_dot_product_attention is SDPA


def test_a_wrong_scale_is_named_with_step_backend_and_module(kernel, capfd):
    kernel(lambda out, q, k, v, given: SDPA(q, k, v, scale=3.0, **given), since=6)
    guard, _ = train()

    (line,) = guard.told
    assert "step 4: scaled_dot_product_attention" in line
    assert "layers." in line
    assert "sampled rows are wrong" in line
    assert line in capfd.readouterr().err


def test_rows_that_are_not_finite_are_those_of_the_call(kernel):
    def spoil(out, q, k, v, given):
        return out.index_fill(2, torch.tensor([3]), float("nan"))

    kernel(spoil, since=9)  # the second layer of step 4
    guard, _ = train()
    (one,) = calls(guard)

    assert "not finite, though q, k and v are" in guard.told[0]
    assert (one["nonfinite_rows"], one["nonfinite_step"]) == (8, 4)


def test_nan_from_before_is_told_as_such(kernel):
    model = Model()
    with torch.no_grad():
        model.layers[0].qkv.weight[0, 0] = float("nan")
    with attn_doctor.watch(every=1) as guard:
        model(torch.randn(2, 12, 32))
        guard.step()

    assert len(guard.told) == 1
    assert "that began before this call" in guard.told[0]


def test_a_gradient_that_becomes_nan_is_told(kernel):
    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(context, q):
            return q.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * float("nan")

    kernel(lambda out, q, k, v, given: SDPA(Spoiled.apply(q), k, v, **given))
    guard, _ = train(steps=1)

    assert any("its backward pass turns numbers into NaN" in line for line in guard.told)


def test_stop_raises_from_step_and_takes_the_hooks_away(kernel):
    kernel(lambda out, q, k, v, given: out * 1.5)
    here = functional.scaled_dot_product_attention

    with pytest.raises(attn_doctor.AttentionTrouble, match="attention goes wrong"):
        train(policy="stop")
    assert functional.scaled_dot_product_attention is here


def test_the_report_is_the_usual_one(kernel, tmp_path):
    kernel(lambda out, q, k, v, given: out * 1.5)
    guard, _ = train(report=tmp_path / "attention.json")

    written = json.loads((tmp_path / "attention.json").read_text())
    assert written["schema"] == "attn-doctor/report/v1"
    assert [one["id"] for one in written["findings"]] == ["attention-wrong-in-run"]
    assert guard.report().exit_status == 1
    assert "rows beside float64" in str(guard.report())


def test_other_ranks_and_switched_off_do_nothing(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    guard, _ = train()
    assert guard.answer() is None
    with pytest.raises(attn_doctor.BadInput, match="nothing was watched"):
        guard.report()
    monkeypatch.delenv("RANK")
    assert train(enabled=False)[0].answer() is None


def test_steps_that_nobody_ends_cost_no_more_than_a_number_of_calls(monkeypatch):
    from _attn_doctor_patient.guard import attention

    monkeypatch.setattr(attention, "_MOST_CALLS", 3)
    model = Model()
    with attn_doctor.watch(every=2) as guard:
        for _ in range(4):
            model(torch.randn(2, 12, 32))

    assert calls(guard)[0]["examined"] == 3


def test_nothing_is_compiled_twice_for_it():
    """What torch.compile traces passes the hooks by: one graph, in examined steps and others."""
    import torch._dynamo.utils

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(Model(), backend="eager")
    with attn_doctor.watch(every=2) as guard:
        for _ in range(4):
            compiled(torch.randn(2, 12, 32)).sum().backward()
            guard.step()

    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert dict(torch._dynamo.utils.counters["graph_break"]) == {}
    assert calls(guard) == []
    assert "what torch.compile compiled was not seen" in guard.answer()["rules"]["words"]


def test_where_looking_is_dear_it_looks_less_often():
    """An examined step that takes 2.9 s more than the others' 0.1 s: one in 2,900 costs a hundredth of the run."""
    with attn_doctor.watch(every=100) as guard:
        pace = guard._guard._pace
    pace.plain, pace.extra = 0.1, 2.9

    assert 2890 <= pace.interval() <= 2901


@pytest.mark.parametrize("options", [{"every": 0}, {"every": 5, "rows": 0}, {"every": 5, "policy": "shout"}])
def test_bad_options_are_refused(options):
    with pytest.raises(attn_doctor.BadInput):
        attn_doctor.watch(**options)


def test_a_fault_of_ours_reaches_nobody(monkeypatch):
    with attn_doctor.watch(every=1) as guard:
        shadow = sys.modules["_attn_doctor_patient.guard.shadow"]
        monkeypatch.setattr(shadow, "of_sdpa", lambda *_: 1 / 0)
        Model()(torch.randn(2, 12, 32))
        guard.step()

    assert "ZeroDivisionError" in guard.trouble


def test_watch_with_every_is_a_guard():
    assert isinstance(attn_doctor.watch(every=10), Guarding)
