"""On a real GPU an autotuned kernel takes the first configuration that fits, with an Autotuner as Triton's is."""

import sys
import types

import pytest

pytest.importorskip("torch")

from attn_doctor.patient.samples import library_run


class OutOfResources(Exception):
    pass


class Autotuner:
    """As Triton's: several configurations are timed, a single one is launched."""

    arg_names = ("x",)

    def __init__(self, *configs, pruned=None, refuses=()):
        self.configs = list(configs)
        self.pruned, self.refuses = pruned, refuses
        self.launched = []

    def prune_configs(self, kwargs):
        assert self.nargs == {"x": "a tensor"}
        return self.pruned if self.pruned is not None else self.configs

    def run(self, *args, **kwargs):
        assert len(self.configs) == 1, "it would be timed for minutes"
        if self.configs[0] in self.refuses:
            raise OutOfResources
        self.launched.append(self.configs[0])
        return "launched"


@pytest.fixture
def tuner(monkeypatch):
    triton, runtime, autotuner = (types.ModuleType(name) for name in ("triton", "runtime", "autotuner"))
    triton.runtime, runtime.autotuner = runtime, autotuner
    autotuner.Autotuner = type("Autotuner", (Autotuner,), {"run": Autotuner.run})
    for name, module in (("", triton), (".runtime", runtime), (".runtime.autotuner", autotuner)):
        monkeypatch.setitem(sys.modules, "triton" + name, module)
    return autotuner.Autotuner


def test_the_first_one(tuner):
    """Nothing is timed, and the configurations are as before afterwards."""
    one = tuner("small", "large")
    with library_run._first_configuration():
        assert one.run("a tensor") == "launched"

    assert (one.launched, one.configs) == (["small"], ["small", "large"])


def test_one_that_does_not_fit(tuner):
    """It is passed over, as the tuner would; when none fits, that is the error."""
    one = tuner("huge", "small", refuses=["huge"])
    none = tuner("huge", "vast", refuses=["huge", "vast"])
    with library_run._first_configuration():
        one.run("a tensor")
        with pytest.raises(OutOfResources):
            none.run("a tensor")

    assert one.launched == ["small"]
    assert none.configs == ["huge", "vast"]


def test_the_tuner_s_own_pruning(tuner):
    """A configuration that the kernel is not meant to take for these shapes is not tried."""
    one = tuner("not for this shape", "small", pruned=["small"])
    with library_run._first_configuration():
        one.run("a tensor")

    assert one.launched == ["small"]


def test_afterwards(tuner):
    """The tuner is as it was."""
    before = tuner.run
    with library_run._first_configuration():
        assert tuner.run is not before

    assert tuner.run is before
