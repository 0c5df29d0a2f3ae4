"""What was done when it failed, and whether the person's own code made the call."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.calls import is_own_code, may_have_raised, phase_in, raised_by, raised_in
from attn_doctor.diagnose.log.shapes import heads_laid_out, is_longer_again

TORCH = "/e/lib/python3.11/site-packages/torch/nn/modules/linear.py"
MODEL = "/e/lib/python3.11/site-packages/transformers/models/qwen2/modeling_qwen2.py"
UNSLOTH = "/e/lib/python3.11/site-packages/unsloth/models/llama.py"
OWN = "/home/ann/proj/train.py"
METADATA = (
    "saved metadata: {'shape': torch.Size([%s]), 'dtype': torch.bfloat16}\n"
    "recomputed metadata: {'shape': torch.Size([%s])}"
)


@pytest.mark.parametrize(
    ("paths", "own"),
    [
        ((OWN, MODEL, TORCH), True),
        ((UNSLOTH, OWN, TORCH), True),  # the model's own module, called by the trainer
        ((OWN, UNSLOTH, MODEL, TORCH), False),
        ((OWN, "/home/ann/unsloth_compiled_cache/unsloth_compiled_module_qwen2.py", TORCH), False),
        (("/w/ComfyUI/execution.py", "/w/ComfyUI/custom_nodes/Some-Node/nodes.py", MODEL), False),
        (("/data/LLaMA-Factory/src/llamafactory/train/sft/workflow.py", MODEL), False),
        (("/w/ComfyUI/venv/lib/python3.11/site-packages/diffusers/models/attention.py", TORCH), False),
        (("I:/c/python_embeded/Lib/site-packages/triton/backends/nvidia/compiler.py", "subprocess.py"), False),
        (("train.py",), True),
        ((), False),
    ],
)
def test_the_innermost_file_of_somebody_decides(paths: tuple[str, ...], own: bool) -> None:
    assert is_own_code(paths) is own


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("    return inner_training_loop(", "training"),
        ("    out = model.generate(**inputs)", "generation"),
        ("in trainer.train()\n    ids = self.model.generate(x)", "generation"),
        ("    loss, logits, labels = self.prediction_step(model, inputs)", "evaluation"),
        ("    out = layer(x)", None),
    ],
)
def test_frames_tell_what_was_done(text: str, phase: str | None) -> None:
    assert phase_in(text) == phase


def test_a_cache_that_grew_is_told_by_shapes() -> None:
    assert is_longer_again(METADATA % ("1, 8, 200, 64", "1, 8, 400, 64"))
    assert not is_longer_again(METADATA % ("64, 64", "64, 64"))
    assert not is_longer_again(METADATA % ("128", "0"))


@pytest.mark.parametrize(
    ("shape", "size", "told"),
    [
        ("1, 10, 64, 128", 10240, "grouped"),
        ("1, 4096, 32, 128", 4194304, "grouped"),
        ("1, 10, 32, 160", 40960, "head_dim"),
        ("1, 10, 32, 128", 51200, "head_dim"),
        ("1, 10, 32, 128", 0, None),
        ("1, 10, 32, 128", 40960, None),
    ],
)
def test_heads_that_a_tensor_does_not_have(shape: str, size: int, told: str | None) -> None:
    assert heads_laid_out(f"RuntimeError: shape '[{shape}]' is invalid for input of size {size}") == told


@pytest.mark.parametrize(
    ("paths", "who"),
    [
        ((OWN,), "script"),
        ((MODEL, OWN), "script"),
        ((OWN, MODEL, TORCH), "torch"),
        ((OWN, MODEL, TORCH.replace("linear.py", "module.py")), "transformers"),  # which only passes the call on
        ((OWN, "/usr/lib/python3.11/threading.py"), "script"),
        ((OWN, "/home/ann/unsloth_compiled_cache/UnslothDPOTrainer.py"), "unsloth"),
        (("/w/ComfyUI/custom_nodes/Some-Node/nodes.py",), "ComfyUI"),
        (("/root/.cache/huggingface/modules/transformers_modules/moon/modeling_moon.py",), "remote-code"),
        (("<ipython-input-3-0f>",), "script"),
        (("/usr/lib/python3.11/runpy.py",), None),
        ((), None),
    ],
)
def test_whose_file_raised(paths: tuple[str, ...], who: str | None) -> None:
    assert raised_by(paths) == who


def test_a_pattern_names_who_may_have_raised() -> None:
    assert may_have_raised(["transformers"], [OWN, MODEL])
    assert not may_have_raised(["transformers"], [MODEL, OWN])
    assert may_have_raised(["package"], [OWN, MODEL])
    assert not may_have_raised(["package"], [MODEL, OWN])
    assert may_have_raised(["script"], [MODEL, OWN])
    assert may_have_raised(["transformers"], [])


def test_own_code_that_raises_is_named_by_file_and_line() -> None:
    trainer = ("/e/lib/python3.10/site-packages/transformers/trainer.py", 2268)
    assert raised_in([trainer, ("/home/u/proj/losses.py", 12)]) == "proj/losses.py, line 12"
    assert raised_in([trainer, ("C:\\u\\proj\\losses.py", 12)]) == "proj/losses.py, line 12"
    passed_on = ("/e/lib/python3.10/site-packages/torch/nn/modules/module.py", 1553)
    assert raised_in([("/home/u/proj/losses.py", 12), passed_on]) == "proj/losses.py, line 12"
    assert raised_in([("/home/u/proj/train.py", 3), trainer]) is None
    assert raised_in([trainer, ("<string>", 1)]) is None
    assert raised_in([]) is None
