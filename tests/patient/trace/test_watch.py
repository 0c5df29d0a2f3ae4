"""A program watched from within."""

LOAD = """
import importlib, sys
import torch
sys.path.insert(0, {folder!r})
watch = importlib.import_module("_attn_doctor_patient.trace.run.watch")
models = importlib.import_module("models")
told = []
"""


def script(body):
    from tests.patient.trace.conftest import MODELS

    return LOAD.format(folder=str(MODELS.parent)) + body


def test_broken_call_is_told(traced):
    """The first broken call is told with its line; the program's own exception passes through unchanged."""
    answer = traced.run(
        script("""
model, inputs = models.gained()
try:
    with watch.Watch(told.append) as watching:
        model(*inputs)
except RuntimeError as error:
    answer = [str(error)[:44], told[0]["verdict"], told[0]["promotions"][0]["source"], watching.trouble]
""")
    )

    assert answer[0] == "Expected query, key, and value to have the s"
    assert answer[1] == "raises"
    assert "q * m.gain" in answer[2]
    assert answer[3] is None


def test_assertions_are_read(traced):
    """Code that refuses before its kernel is told as well."""
    answer = traced.run(
        script("""
model, inputs = models.asserting()
try:
    with watch.Watch(told.append):
        model(*inputs)
except AssertionError:
    answer = [told[0]["attention"][0]["operands"]["k"]["blamed"], told[0]["promotions"][0]["roles"]]
""")
    )

    assert answer == [True, ["k"]]


def test_silence(traced):
    """A clean model leaves nothing, a broken call repeated is told once, and our own failure raises nothing."""
    answer = traced.run(
        script("""
model, inputs = models.plain()
with watch.Watch(told.append):
    model(*inputs)
clean = len(told)
model, inputs = models.cast_by_hand()
with watch.Watch(told.append):
    for _ in range(3):
        model(*inputs)
def failing(result):
    raise ValueError("a fault of ours")
with watch.Watch(failing) as watching:
    model(*inputs)
answer = [clean, len(told), "a fault of ours" in watching.trouble]
""")
    )

    assert answer == [0, 1, True]


def test_nothing_is_left(traced):
    """Afterwards torch is as it was."""
    from tests.patient.trace.test_troubles import STATE

    before = traced.run(STATE)
    traced.run(script("model, inputs = models.plain()\nwith watch.Watch():\n    model(*inputs)\n"))

    assert traced.run(STATE) == before
