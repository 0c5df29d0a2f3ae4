"""What the recorder keeps, and what it leaves alone."""

LOAD = """
import gc, importlib, weakref
import torch
session = importlib.import_module("_attn_doctor_patient.trace.run.session")
rules = importlib.import_module("_attn_doctor_patient.trace.rules")
attention = importlib.import_module("_attn_doctor_patient.trace.meet.attention")
provenance = importlib.import_module("_attn_doctor_patient.trace.read.provenance")
opened = session.Session(rules.Rules(rules.ON_CPU), attention.Conditions())
"""


def test_tensors_are_not_kept_alive(traced):
    """A tensor dies as it would without the recorder, its node with it, and its id means nothing any more."""
    answer = traced.run(
        LOAD
        + """
with opened, opened.recorded() as recording:
    x = torch.randn(64, 64)
    y = x * 2
    watched, kept = weakref.ref(y), len(recording.recorder.nodes.by_id)
    del y
    answer = [watched() is None, kept - len(recording.recorder.nodes.by_id)]
    for _ in range(1000):
        x * 2
    answer.append(len(recording.recorder.nodes.by_id) < 10)
"""
    )

    assert answer == [True, 1, True]


def test_ids_are_given_out_again(traced):
    """A new tensor under a dead one's id is a tensor of its own."""
    answer = traced.run(
        LOAD
        + """
wrong = 0
with opened, opened.recorded() as recording:
    for i in range(200):
        dtype = (torch.float16, torch.float32)[i % 2]
        made = torch.ones(4).to(dtype)
        wrong += recording.recorder.node(made).dtype is not dtype
        del made
answer = wrong
"""
    )

    assert answer == 0


def test_values_are_untouched(traced):
    """A traced forward and backward pass gives, bit for bit, what it gives untraced."""
    answer = traced.run(
        LOAD
        + """
def once():
    torch.manual_seed(0)
    net = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    out = net(torch.randn(2, 5, 16))
    out.sum().backward()
    return [out.detach(), *[p.grad for p in net.parameters()]]
plain = once()
with opened, opened.recorded() as recording:
    seen = once()
answer = [recording.error is None, all(torch.equal(a, b) for a, b in zip(plain, seen)), recording.attention.total]
"""
    )

    assert answer == [True, True, 1]


def test_changed_parameters(traced):
    """module.half() in the middle of a trace gives the parameters their new dtype, under their old names."""
    answer = traced.run(
        LOAD
        + """
with opened, opened.recorded() as recording:
    net = torch.nn.Linear(4, 4)
    net(torch.ones(1, 4))
    net.half()
    node = recording.recorder.node(net.weight)
answer = [str(node.dtype), node.leaf.name]
"""
    )

    assert answer == ["torch.float16", "weight"]
