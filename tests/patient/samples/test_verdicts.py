"""What came of a sample: a library's fault, or only a sample that cannot be run here."""

import pytest

from attn_doctor.patient.samples import catalogue, verdicts

SAMPLE = catalogue.samples_of("x_transformers")[0]
MIXED = [{"kept": False, "effect": "raises"}]


def call(verdict="clean", error=None, contract=(), stand_in=None):
    return {
        "verdict": verdict,
        "error": error,
        "contract": list(contract),
        "stand_in": stand_in,
        "operands": {"q": {"dtype": "float32", "path": [{"call": "F.linear"}]}},
        "stack": ["somewhere"],
    }


def answer(verdict="clean", outcome="finished", error=None, calls=None):
    return {
        "verdict": verdict,
        "outcome": outcome,
        "error": error,
        "attention": [call(verdict)] if calls is None else calls,
        "rules": {"words": "as told"},
        "seconds": 0.5,
        "launches": ["a launch"],
    }


def error(kind, name="RuntimeError", message="what it said\nand more", predicted=False):
    return {"kind": kind, "type": name, "message": message, "at": {"file": "a.py", "line": 3}, "predicted": predicted}


def entry(told, simulated=True):
    return verdicts.entry(SAMPLE, told, simulated, "cpu")


def test_a_run_to_the_end():
    """It ran, with the tracer's verdict; what no fact is made of is left behind."""
    found = entry(answer("silently mixed"))

    assert (found["outcome"], found["verdict"], found["error"]) == ("ran", "silently mixed", None)
    assert found["trace"]["launches"] == []
    assert found["trace"]["attention"][0]["operands"]["q"] == {"dtype": "float32", "path": []}
    assert found["trace"]["entry"]["words"] == SAMPLE.words


def test_a_refused_call():
    """An attention call that raises over its operands is the library's."""
    raised = error("attention call raised")
    told = answer("raises", "raised", raised, [call("raises", error=dict(raised, predicted=False), contract=MIXED)])
    found = entry(told)

    assert (found["outcome"], found["verdict"], found["where"]) == ("raised", "raises", "a.py:3")
    assert found["error"] == "RuntimeError: what it said"


def test_a_call_that_raised_for_something_else():
    """A name that is missing without a GPU is no complaint about dtypes, though they were mixed as well."""
    raised = error("attention call raised", "NameError", "name '_helper' is not defined")
    found = entry(answer("raises", "raised", raised, [call("raises", dict(raised, predicted=False), MIXED)]))

    assert (found["outcome"], found["verdict"], found["trace"]) == ("unasked", None, None)


def test_a_type_error_about_dtypes():
    """It is a complaint about dtypes, whatever class it has."""
    raised = error("attention call raised", "TypeError", "q must have the dtype of k")
    found = entry(answer("raises", "raised", raised, [call("raises", dict(raised, predicted=False), MIXED)]))

    assert (found["outcome"], found["verdict"]) == ("raised", "raises")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("model raised", "RuntimeError"), ("cannot simulate", "RuntimeError"), ("wrong device", "RuntimeError")],
)
def test_a_fault_that_may_be_the_simulation_s(kind, name):
    """Without a GPU, what fails for another reason than dtypes is not known to be the library's."""
    found = entry(answer("clean", "raised", error(kind, name)))

    assert (found["outcome"], found["verdict"]) == ("unasked", None)
    assert "what it said" in found["error"]


def test_the_same_on_a_real_gpu():
    """There it is."""
    assert entry(answer("clean", "raised", error("model raised")), simulated=False)["outcome"] == "raised"


@pytest.mark.parametrize("name", ["TypeError", "AttributeError", "ImportError"])
@pytest.mark.parametrize("simulated", [True, False])
@pytest.mark.parametrize("kind", ["model raised", "attention call raised"])
def test_another_release_s_arguments(name, simulated, kind):
    """A sample that does not fit this release says nothing of it."""
    raised = error(kind, name)
    told = answer("raises", "raised", raised, [call("raises", error=dict(raised, predicted=False))])

    assert entry(told, simulated)["outcome"] == "unasked"


def test_what_cannot_be_made():
    """A factory that raised, whatever it was, leaves the sample unexamined with its reason."""
    found = entry(answer(None, "could not run", error("factory raised", "RuntimeError", "no conv1d"), []), False)

    assert (found["outcome"], found["verdict"]) == ("unasked", None)
    assert "RuntimeError: no conv1d" in found["error"]


def test_memory_that_others_took():
    """A GPU that is full is not the library's fault."""
    full = error("model raised", "OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 MiB")

    assert entry(answer("clean", "raised", full), simulated=False)["outcome"] == "unasked"


def test_what_was_broken_before_it_ended_early():
    """A verdict that was seen stays, though the rest of the run is not known."""
    found = entry(answer("silently mixed", "raised", error("cannot simulate")))

    assert (found["outcome"], found["verdict"]) == ("unasked", "silently mixed")


def test_names_are_subjects_of_facts():
    """Names are unique and hold no dot, which ends a subject."""
    names = [s.name for library in catalogue.LIBRARIES for s in catalogue.samples_of(library, flash_attn=True)]

    assert len(set(names)) == len(names) > 20
    assert not [name for name in names if "." in name]
