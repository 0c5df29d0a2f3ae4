"""A library's notice that it runs torch operations in the place of a kernel is heard, whoever silenced it."""

import logging

import pytest

from attn_doctor.patient.trace.run import slow_paths

NOW = (
    "`chunk_gated_delta_rule` is falling back to its reference PyTorch implementation because `flash-linear-attention` "
    "is not installed. This is correct but much slower; install `flash-linear-attention` for the optimized kernel."
)
THEN = (
    "The fast path is not available because one of the required library is not installed. Falling back to torch "
    "implementation. To install follow https://github.com/fla-org/flash-linear-attention#installation and "
    "https://github.com/Dao-AILab/causal-conv1d"
)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (NOW, ["chunk_gated_delta_rule: flash-linear-attention"]),
        (THEN, ["fast path: causal-conv1d", "fast path: flash-linear-attention"]),
        ("The path to the checkpoint is not available because the disk is full", []),
        ("Some weights were not used when initializing the model", []),
    ],
)
def test_what_is_said(message, found):
    assert slow_paths.told(message) == found


def test_a_silenced_logger_is_heard_and_stays_silent():
    records = []
    logger = logging.getLogger("transformers.models.example")
    logger.addFilter(records.append)
    logger.setLevel(logging.CRITICAL)
    before = logging.Logger.warning
    with slow_paths.heard() as found:
        for _ in range(3):
            logger.warning(NOW)

    assert found == ["chunk_gated_delta_rule: flash-linear-attention"]
    assert records == []
    assert logging.Logger.warning is before


@pytest.mark.parametrize(
    ("file", "function", "found"),
    [
        ("/env/site-packages/transformers/m.py", "torch_chunk_gated_delta_rule", ["chunk_gated_delta_rule"]),
        ("/env/site-packages/transformers/m.py", "torch_recurrent_gated_delta_rule", ["recurrent_gated_delta_rule"]),
        ("/env/site-packages/transformers/m.py", "causal_conv1d_fn", ["causal_conv1d_fn"]),
        ("/env/site-packages/transformers/m.py", "slow_forward", ["slow_forward"]),
        ("/env/site-packages/transformers/m.py", "torch_dtype_of", []),
        ("/env/site-packages/transformers/m.py", "forward", []),
        ("/home/me/model.py", "torch_chunk_gated_delta_rule", []),  # one's own code, which may be meant so
    ],
)
def test_what_ran(monkeypatch, file, function, found):
    """Without any notice: by the functions that called torch. Nothing of a library that is installed."""
    monkeypatch.setattr(slow_paths, "_is_there", lambda _module: False)
    assert [one.partition(":")[0] for one in slow_paths.ran({(file, function)})] == found

    monkeypatch.setattr(slow_paths, "_is_there", lambda _module: True)
    assert slow_paths.ran({(file, function)}) == []


def test_a_traced_model_without_a_notice(traced, tmp_path):
    """What ran is told where nobody says it: a package of one's own with a loop that is called as torch's own way."""
    package = tmp_path / "site-packages" / "loops"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import torch\n"
        "def torch_chunk_gated_delta_rule(x):\n"
        "    for _ in range(3):\n"
        "        x = torch.tanh(x)\n"
        "    return x\n"
    )
    (tmp_path / "model.py").write_text(
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        "import torch, loops\n"
        "def build():\n"
        "    x = torch.ones(2, 2)\n"
        "    return lambda: loops.torch_chunk_gated_delta_rule(x)\n"
    )
    answer = traced("build", file=tmp_path / "model.py")

    assert answer["slow_paths"] == ["chunk_gated_delta_rule: flash-linear-attention"]


def test_a_function_is_named_once():
    """By its own notice, where there is one: packages spell a library in several ways."""
    said = ["causal_conv1d_fn: causal_conv1d"]
    seen = ["causal_conv1d_fn: causal-conv1d", "chunk_gated_delta_rule: flash-linear-attention"]

    assert slow_paths.together(said, seen) == [*said, seen[1]]
