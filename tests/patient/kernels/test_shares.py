"""The share of a matrix product that is held against other GPUs."""

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.kernels import problems, shares, speed, trial  # noqa: E402
from attn_doctor.patient.kernels.cells import Cell  # noqa: E402
from attn_doctor.patient.kernels.registry import backend  # noqa: E402


def problem(direction="forward"):
    return problems.make_problem(Cell("sdpa-flash", "bfloat16", 32, "causal", direction), "cpu", 1, (1, 2, 64))


@pytest.fixture
def clock(monkeypatch):
    """Milliseconds of each thing that is timed, in turn; what was called."""
    times, called = [], []

    def timed(work, calls, device):
        for _ in range(calls):
            work()
        called.append(calls)
        return times.pop(0) * calls

    monkeypatch.setattr(shares, "_timed", timed)
    return times, called


def test_calls_are_timed_in_batches(clock):
    """Each batch takes some 20 ms, so that the processor runs ahead; the fastest counts, of one call."""
    times, called = clock
    times += [0.5, 0.6, 0.5, 0.55]
    ran = []

    assert shares.milliseconds(lambda: ran.append(1), torch.device("cpu")) == 0.5
    assert called == [1, 40, 40, 40]
    assert len(ran) == 2 + 1 + 3 * 40


def test_a_slow_call_is_not_repeated_for_ever(clock):
    """A call of seconds is made once for each batch."""
    times, called = clock
    times += [3000.0] * 4
    shares.milliseconds(lambda: None, torch.device("cpu"))

    assert called == [1, 1, 1, 1]


def test_the_share(monkeypatch):
    """The kernel's TFLOP/s over those of the faster product beside it."""
    made = problem("train")
    taken = iter((2.0, 4.0, 1.0))  # product, kernel, product
    monkeypatch.setattr(speed, "product", lambda device, dtype: (lambda: None, 8e12))
    monkeypatch.setattr(shares, "milliseconds", lambda work, device: (work(), next(taken))[1])
    told = shares.measure(lambda: made.q * made.k * made.v, made)

    assert told["matmul_tflops"] == 8000.0
    assert told["of_matmul"] == pytest.approx(speed.flops(made) / 4.0 / 1e9 / 8000.0, abs=1e-4)


def test_no_memory_is_no_verdict(monkeypatch):
    """A GPU that has no room for the large call has no share, and its kernel is right all the same."""

    def refuses(*_):
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(shares, "measure", refuses)
    monkeypatch.setattr(shares, "SIZES", (1, 2, 64))
    calls = __import__("attn_doctor.patient.libraries.sdpa", fromlist=["prepare"])

    assert trial._share(problem().cell, backend("sdpa-flash"), calls, "cpu", 1) is None


@pytest.mark.parametrize(
    "words", ["cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", "Expected execute().is_good() to be true"]
)
def test_a_lost_context_is_noticed_whatever_it_is_called(monkeypatch, words):
    """The GPU is asked after each error: a library's own words do not hide that its context is gone."""
    asked = []

    def gone(device):
        asked.append(device)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def fails(*_):
        raise RuntimeError(words)

    monkeypatch.setattr(trial, "_tried", fails)
    monkeypatch.setattr(torch.cuda, "synchronize", gone)
    told = trial.attempt(problem().cell, backend("sdpa-flash"), "cuda:0", 1)

    assert (told["outcome"], told["context_lost"], asked) == ("crashed", True, ["cuda:0"])


def test_a_refusal_on_a_gpu_that_is_well(monkeypatch):
    """A kernel that only refuses does not cost its child."""

    def fails(*_):
        raise RuntimeError("only fp16 and bf16")

    monkeypatch.setattr(trial, "_tried", fails)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: torch.tensor([1.0]))
    told = trial.attempt(problem().cell, backend("sdpa-flash"), "cuda:0", 1)

    assert (told["outcome"], told["context_lost"]) == ("refused", False)
