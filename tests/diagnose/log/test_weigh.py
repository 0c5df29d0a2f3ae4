"""Matches of one message beside each other."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.recipes import shelf


def _told(text: str) -> tuple[Finding, ...]:
    """What is said of a text that somebody pasted."""
    return explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=True).diagnosis.findings


def test_two_that_outrank_each_other_do_not_both_go() -> None:
    """Each of two recipes names the other as the lesser: one of them answers."""
    text = "AttributeError: 'Qwen2_5_VLVisionAttention' object has no attribute 'is_causal'"
    found = explain_text(text, shelf.shelf(), FactSet(())).diagnosis.findings

    assert [one.id for one in found] == ["model-code-of-older-transformers"]


def test_what_a_person_typed_is_no_message_of_what_it_does() -> None:
    """A shell repeats the command at its prompt; pip's own words follow."""
    typed = "Installing an engine for torch fails:\n(venv) one@node:~/w$ pip install vllm\nCollecting vllm"
    told = _told(typed)
    assert told == ()


def test_what_a_program_printed_comes_before_what_a_person_tells_of_it() -> None:
    """Memory ran out in another run; this one ended by what the program says."""
    text = (
        "I first trained with DeepSpeed zero2 and got CUDA out of memory. Then I tried zero3:\n"
        "AttributeError: 'DeepSpeedDataLoader' object has no attribute 'sampler'"
    )
    told = _told(text)
    assert [one.id for one in told] == ["attribute-behind-a-wrapper"]


def test_a_harmless_notice_does_not_lead_where_the_process_was_killed() -> None:
    """transformers says it of many models; what ended the program stands below."""
    text = (
        "You are attempting to use Flash Attention 2.0 with a model not initialized on GPU. Make sure to move the "
        "model to GPU after initializing it on CPU with `model.to('cuda')`.\n"
        "fish: Job 1, 'python start.py' terminated by signal SIGKILL (Forced quit)"
    )
    told = _told(text)
    assert [one.id for one in told] == ["host-out-of-memory", "harmless-dtype-warning"]


def test_what_the_compiler_says_leads_what_called_it() -> None:
    """A log without a word of torch: the exact recipe is a note then, and still says more than a family."""
    text = (
        "/tmp/tmpab/main.c:5:10: fatal error: Python.h: No such file or directory\n"
        "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpab/main.c', '-O3', '-shared', '-o', "
        "'/tmp/tmpab/cuda_utils.so', '-lcuda']' returned non-zero exit status 1."
    )
    told = explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet()).diagnosis.findings
    assert told[0].id == "python-headers-missing"


def test_what_an_installer_did_not_put_in_follows_from_why() -> None:
    """pip says why it stopped; the module that is missing then is no trouble of its own."""
    text = (
        "ModuleNotFoundError: No module named 'unsloth'\n"
        "ERROR: Could not install packages due to an OSError: [Errno 2] No such file or directory: "
        "'/opt/conda/lib/python3.10/site-packages/aiohttp-3.9.1.dist-info/METADATA'"
    )
    told = _told(text)
    assert [one.id for one in told] == ["package-metadata-broken"]


def test_an_option_that_pip_does_not_know_stops_it_as_well() -> None:
    """Who installs apex knows that it is missing."""
    text = (
        "ImportError: Apex was not found. Please see the NeMo README for installation instructions\n"
        'pip install -v --config-settings "--build-option=--cpp_ext --cuda_ext" ./apex\n'
        "no such option: --config-settings"
    )
    told = _told(text)
    assert [one.id for one in told] == ["apex-build-options"]


def test_a_text_that_facts_refuse_does_not_hide_the_next_one() -> None:
    """The recipe's text for a Jetson stands before its general one, and this GPU is none."""
    text = (
        "RTX 5090, flash attention\nRuntimeError: CUDA error: no kernel image is available for execution on the device"
    )
    told = _told(text)
    assert {one.id for one in told} == {"torch-lacks-gpu-arch", "extension-lacks-gpu-arch"}


def test_a_harmless_notice_does_not_lead_where_a_line_tells_of_a_trouble() -> None:
    """xformers goes on without Triton; bitsandbytes says above it that it has no library for the GPU."""
    text = (
        "Could not find the bitsandbytes CUDA binary at WindowsPath('C:/e/bitsandbytes/libbitsandbytes_cuda129.dll')\n"
        "The installed version of bitsandbytes was compiled without GPU support.\n"
        "A matching Triton is not available, some optimizations will not be enabled\n"
    )
    told = _told(text)
    assert [one.id for one in told][:2] == ["native-library-of-bitsandbytes", "triton-missing"]


@pytest.mark.parametrize("end", ["Killed", "./run.sh: line 4:  1234 Killed                  python train.py"])
def test_an_exception_leads_what_the_shell_says_of_the_end(end: str) -> None:
    """A process that raised was not killed for the machine's memory; one that only warned may have been."""
    raised = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
    assert _told(raised + end)[0].id == "shapes-that-do-not-fit"
    assert _told("Loading checkpoint shards: 33%\n" + end)[0].id == "host-out-of-memory"


def test_a_notice_about_which_nothing_has_to_be_done_stands_behind_another_one() -> None:
    told = _told(
        "    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
        "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n    (8.0) - (12.0)\n\n"
        "Unsloth: Your Flash Attention 2 installation seems to be broken?"
    )

    assert [one.id for one in told] == ["optional-fast-path-missing", "gpu-minor-above-torchs-list"]


def test_wrong_results_lead_the_notices_beside_them() -> None:
    """Whoever gets one token again and again asks for that; the notice of another backend says nothing of it."""
    text = (
        "Qwen2.5 on four T4: the answer to any question is !!!!!!!!!!!!!!!!!!!!\n"
        "INFO 03-12 10:19:04 cuda.py:179] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.\n"
        "INFO 03-12 10:19:04 cuda.py:227] Using XFormers backend."
    )
    told = _told(text)
    assert [one.id for one in told] == ["answers-are-exclamation-marks", "harmless-dtype-warning"]


def test_a_program_that_met_nan_and_went_on_gives_a_notice() -> None:
    """The picture is computed once more in 32 bits: nothing is wrong, and the module that is missing leads."""
    text = (
        "A tensor with all NaNs was produced in VAE. Web UI will now convert VAE into 32-bit float and retry, falling "
        "back to 32 bits.\nModuleNotFoundError: No module named 'xformers'"
    )
    told = _told(text)
    assert told[0].id == "xformers-not-installed"


CRASHES = (
    "`Fatal Python error: Aborted`, exception code `0x80000003`, at the first call of sageattn_qk_int8_pv_fp16_cuda",
    "Segmentation fault (core dumped)",
    "python main.py ended with exit code -11",
)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_leads_the_wrong_results_beside_it(crash: str) -> None:
    """The process ended in native code with one kernel; that another gave black images comes after."""
    told = _told(f"Black images with SageAttention's other mode, qk_int8_pv_fp16_triton. With this one:\n{crash}")
    assert told[0].id == "attention-ends-the-process"


def test_black_images_without_a_crash_stay_what_they_are() -> None:
    """That nothing crashes is said as well."""
    told = _told("With SageAttention 2.2 all images in ComfyUI are black. No crash, no error in the console.")
    assert told[0].id == "images-all-nan"


SEGMENTATION_FAULTS = (
    "段错误(吐核)",
    "段错误 (核心已转储)",
    "run.sh: 行 12: 4711 段错误 （核心已转储） python cli_demo.py",
    "Speicherzugriffsfehler (Speicherabzug geschrieben)",
    "Erreur de segmentation (core dumped)",
    "Ошибка сегментирования (образ памяти сброшен на диск)",
    "Segmentation fault",
)


@pytest.mark.parametrize("fault", SEGMENTATION_FAULTS)
def test_a_segmentation_fault_leads_the_notice_before_it(fault: str) -> None:
    """A shell says it in its user's language."""
    told = _told(
        "Try importing flash-attention for faster inference...\n"
        "Warning: import flash_attn rotary fail, please install FlashAttention rotary to get higher efficiency "
        f"https://github.com/Dao-AILab/flash-attention/tree/main/csrc/rotary\n{fault}"
    )
    assert told[0].id == "import-ends-in-segfault"


_NO_FLASH_ATTN = (
    "Warning: flash-attn is not installed. Will only run the manual PyTorch version. Please install flash-attn for "
    "faster inference.\n"
)
_NOT_ON_GPU = "You are attempting to use Flash Attention 2.0 with a model not initialized on GPU.\n"


@pytest.mark.parametrize(
    ("notice", "end", "first"),
    [
        (_NO_FLASH_ATTN, "FileNotFoundError: [WinError 2] The system cannot find the file: 'sox'", "file-not-there"),
        (_NO_FLASH_ATTN, "RuntimeError: row 17 tokenised to 0 tokens", "exception-nobody-knows"),
        (_NO_FLASH_ATTN, "Killed", "host-out-of-memory"),
        (_NOT_ON_GPU, "KeyError: 'conversation'", "key-that-is-not-there"),
        (
            "Padding-free training is enabled, but the attention implementation is not set to 'flash_attention_2'.\n",
            "ValueError: `token_type_ids` is required as a model input when training",
            "token-types-missing-in-training",
        ),
    ],
)
def test_what_a_program_goes_on_with_does_not_lead_the_exception_after_it(notice: str, end: str, first: str) -> None:
    """Also where of the exception no more is known than its grammar."""
    assert _told(notice + end)[0].id == first


def test_a_harmless_notice_of_another_process_after_the_exception_does_not_lead() -> None:
    text = "[rank0]: KeyError: 'conversation'\n(WorkerDict pid=3001) " + _NOT_ON_GPU
    assert _told(text)[0].id == "key-that-is-not-there"


def test_why_an_optional_package_does_not_load_is_not_why_another_call_is_refused() -> None:
    text = (
        "`flash-attention` package not found, consider installing for better performance: /e/site-packages/"
        "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E.\n"
        "ValueError: Target module Phi3ImageEmbedding() is not supported. Currently, only the following modules are "
        "supported: `torch.nn.Linear`"
    )
    assert _told(text)[0].id == "adapter-on-unknown-layer"


def test_what_a_program_goes_on_with_leads_where_nothing_failed() -> None:
    assert _told(_NO_FLASH_ATTN)[0].id == "flash-attn-not-installed"
    assert _told(_NOT_ON_GPU + "Loading checkpoint shards: 100%")[0].id == "harmless-dtype-warning"


@pytest.mark.parametrize("code", ["-1073740791 (0xC0000409)", "-1073741819 (0xC0000005)", "3221226505"])
def test_a_code_of_windows_leads_the_notice_before_it(code: str) -> None:
    told = _told(
        "UserWarning: 1Torch was not compiled with flash attention. (Triggered internally at sdp_utils.cpp:455.)\n\n"
        f"Process finished with exit code {code}"
    )
    assert told[0].id == "attention-ends-the-process"


def test_wrong_results_lead_the_notice_of_the_same_sentence() -> None:
    told = _told("It says xformers not available, falling back to SDPA, and then my training loss is nan from step 3.")
    assert told[0].id == "nan-in-attention"


_NO_ROOM = (
    "Traceback (most recent call last):\n"
    '  File "/e/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 180, in init_device\n'
    "    raise ValueError(\n"
    "ValueError: Free memory on device (16.01/93.0 GiB) on startup is less than desired GPU memory utilization (0.8)\n"
)


def test_what_is_raised_while_an_object_goes_is_no_reason() -> None:
    """Python ignores it; what ended the engine stands before it."""
    text = _NO_ROOM + (
        "Exception ignored in: <function ExecutorBase.__del__ at 0x7f2cccf636a0>\n"
        "Traceback (most recent call last):\n"
        '  File "/e/lib/python3.11/site-packages/vllm/executor/executor_base.py", line 237, in __del__\n'
        "    self.shutdown()\n"
        '  File "/e/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 675, in shutdown\n'
        "    self.model_runner.ensure_kv_transfer_shutdown()\n"
        "AttributeError: 'NoneType' object has no attribute 'ensure_kv_transfer_shutdown'"
    )
    assert next(one.id for one in _told(text)) == "engine-memory-does-not-fit"


def test_an_exception_of_one_thing_is_not_hidden_by_a_family_of_the_stack() -> None:
    """Which family is about the attention stack says nothing of which exception was first."""
    text = _NO_ROOM + (
        "Traceback (most recent call last):\n"
        '  File "/e/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 675, in shutdown\n'
        "    self.model_runner.ensure_kv_transfer_shutdown()\n"
        "AttributeError: 'NoneType' object has no attribute 'ensure_kv_transfer_shutdown'"
    )
    assert "engine-memory-does-not-fit" in [one.id for one in _told(text)]
