"""Of several troubles in one log the one that ended the program leads; what it survived is a note."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

NODE = r"""
Traceback (most recent call last):
  File "C:\ComfyUI\nodes.py", line 2129, in load_custom_node
    module_spec.loader.exec_module(module)
  File "C:\ComfyUI\custom_nodes\ComfyUI-Foo\__init__.py", line 1, in <module>
    from sageattention import sageattn
ModuleNotFoundError: No module named 'sageattention'

Cannot import C:\ComfyUI\custom_nodes\ComfyUI-Foo module for custom nodes: No module named 'sageattention'
"""
RUN = r"""
Traceback (most recent call last):
  File "C:\ComfyUI\execution.py", line 345, in execute
  File "C:\ComfyUI\comfy\ops.py", line 82, in forward
    return super().forward(*args, **kwargs)
"""
DTYPES = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half"
MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 7.79 GiB"
)
NOTICE = "attention.py:440: UserWarning: 1Torch was not compiled with flash attention. (Triggered internally at x)"

#: Text Generation Inference goes on without FlashAttention, and ends for another reason.
LAUNCHER = (
    "2024-06-11T08:02:31Z  WARN text_generation_launcher: Unable to use Flash Attention V2: "
    "GPU with CUDA capability 7 5 is not supported for Flash Attention V2\n"
)
PREFILL = (
    "2024-06-11T08:02:55Z ERROR warmup: text_generation_client: router/client/src/lib.rs:46: Server error: "
    "Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"
)
SHARED = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled system error\n"
    "Error while creating shared memory segment /dev/shm/nccl-7QvDTA (size 9637888)"
)

#: xformers prints why it says so.
TRITON = (
    "A matching Triton is not available, some optimizations will not be enabled\n"
    "Traceback (most recent call last):\n"
    '  File "C:\\App\\Lib\\site-packages\\xformers\\__init__.py", line 57, in _is_triton_available\n'
    "    import triton  # noqa\n"
    "ModuleNotFoundError: No module named 'triton'"
)

TWO_DEVICES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)

LOGS = [
    (LAUNCHER + PREFILL, "engine-memory-does-not-fit"),
    (LAUNCHER + SHARED, "nccl-call-fails"),
    (LAUNCHER, "gpu-before-ampere"),
    (NODE + "got prompt\n" + RUN + DTYPES, "linear-dtype-mismatch"),
    (NODE + "got prompt\n" + RUN + MEMORY, "gpu-out-of-memory"),
    (NODE, "sageattention-not-installed"),
    (NOTICE + "\n" + RUN + MEMORY, "gpu-out-of-memory"),
    (NOTICE, "sdpa-without-its-flash-kernel"),
    (TRITON, "triton-missing"),
    (NOTICE + "\nKilled", "host-out-of-memory"),
    (NOTICE + "\ntorch: line 3: 5123 Killed    python demo.py", "host-out-of-memory"),
    ("1%|  | 2/1600 [00:13<3:02:54,  6.87s/it, avr_loss=nan]\n" + RUN + MEMORY, "gpu-out-of-memory"),
    ("W0820 convert_frame.py:1017] torch._dynamo hit config.recompile_limit (8)\n" + RUN + MEMORY, "gpu-out-of-memory"),
]


#: What a server, a page or its writer puts beside the message of an exception.
BESIDE = [
    "Error\nThe run of torch failed: \\'AttributeError: type object \\'Moon\\' has no attribute \\'hook\\'\\n\\n\\'",
    "torch\n" + RUN + "UnboundLocalError: local variable 'moon' referenced before assignment\nSystemExit: 1",
    "torch\n**Error**\nKeyError: 'moon'\nINFO: 10.0.0.1:0 - \"POST /v1/x HTTP/1.1\" 500 Internal Server Error",
]


@pytest.mark.parametrize("log", BESIDE)
def test_the_word_error_and_an_exit_lead_nowhere_beside_an_exception(log: str) -> None:
    report = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis

    assert report.findings[0].id not in {"exception-nobody-knows", "program-ended-itself"}


def test_an_exit_is_not_told_in_place_of_what_failed() -> None:
    read = Scanner(Patterns(())).scan("a", [RUN + "OddError: moon\nSystemExit: 1\n"])

    assert read.last_failure is not None
    assert read.last_failure[1] == "OddError: moon"


@pytest.mark.parametrize(("log", "first"), LOGS)
def test_what_ended_the_program_leads(log: str, first: str) -> None:
    assert ids(log)[0] == first


def ids(log: str) -> list[str]:
    return [one.id for one in explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings]


def test_a_warning_does_not_stand_before_a_module_that_is_missing() -> None:
    """Of one package it is never why another one is not there; a warning alone is told as before."""
    warning = (
        "pytorch version: 2.6.0+cu126\n"
        "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
        "    PyTorch 2.7.0+cu126 with CUDA 1206 (you have 2.6.0+cu126)\n"
        "    Python  3.12.10 (you have 3.12.9)\n"
        "xformers version: 0.0.30\n"
    )
    missing = "LatentSyncNode - Failed to execute module: No module named 'insightface'\n"

    hollow = "ImportError: cannot import name 'set_seed' from 'transformers' (unknown location)\n"
    goes_on = "A matching Triton is not available\nError caught was: No module named 'triton'\n"

    assert ids(missing + warning)[0] == "module-not-there"
    assert ids(warning + hollow)[0] == "folder-without-its-package"
    assert ids(warning)[0] == "xformers-torch-mismatch"
    assert ids(warning + goes_on)[0] == "xformers-torch-mismatch"


WARNING_OF_TORCH = (
    "/e/torch/nn/modules/activation.py:1160: UserWarning: Converting mask without torch.bool dtype to bool; this will "
    "negatively affect performance. Prefer to use a boolean mask directly.\n"
)


@pytest.mark.parametrize(
    ("raised", "first"),
    [
        # whose message nothing is known of, in another package
        ('  File "/e/natten/checks.py", line 66, in check\nValueError: The window is larger than this 19th map', False),
        # in a build, what its setup warns of is why it stops; and a message that names the package may be its own
        ("  File \"/b/setup.py\", line 111, in <module>\nNameError: name 'bare_version' is not defined", True),
        ('  File "/e/torch/nn/own.py", line 66, in check\nValueError: The window is larger than this 19th map', True),
    ],
)
def test_a_warning_of_one_package_does_not_stand_before_an_unknown_message_of_another(raised: str, first: bool) -> None:
    found = ids(WARNING_OF_TORCH + "Traceback (most recent call last):\n" + raised)
    assert (found[0] == "mha-fast-path-float-mask") is first
    assert "mha-fast-path-float-mask" in found


def test_a_notice_behind_the_message_of_an_exception_is_none_of_its_cause() -> None:
    """Programs list there what else they did not find; alone it is told as before."""
    raised = (
        "ValueError: When localhost is not accessible, a shareable link must be created. Please set share=True or "
        "check your proxy settings to allow access to localhost.\n"
    )
    listed = "FramePack, Xformers is not installed! Flash Attn is not installed!\n"

    assert "xformers-not-installed" not in ids(raised + listed)
    assert "xformers-not-installed" in ids(listed)


@pytest.mark.parametrize(
    ("sentence", "first"),
    [
        ("UserWarning: 1Torch was not compiled with flash attention, and it ends with " + MEMORY, "gpu-out-of-memory"),
        ("flash_attn is not installed, using eager. Then " + MEMORY, "gpu-out-of-memory"),
        ("A matching Triton is not available, and later " + TWO_DEVICES, "tensors-on-two-devices"),
        # Behind a colon stands the notice's own reason.
        ("A matching Triton is not available: ModuleNotFoundError: No module named 'triton'", "triton-missing"),
    ],
)
def test_a_notice_and_what_came_after_it_in_one_sentence(sentence: str, first: str) -> None:
    """As people tell it: the exception leads."""
    assert ids(sentence)[0] == first
