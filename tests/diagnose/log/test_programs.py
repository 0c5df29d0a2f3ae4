"""In the log of an application, what its user can do comes before what changes code."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Remedy
from attn_doctor.recipes.data.programs import program_told, programs, repositories, repository_told
from attn_doctor.recipes.shelf import bundled, families
from attn_doctor.report.language.translated import finding as in_chinese

DTYPE = "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float\n"
FLASH = "ModuleNotFoundError: No module named 'flash_attn'\n"


def frame(path: str) -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line 12, in forward\n    x = self.proj(x)\n'


def first(log: str) -> Remedy:
    findings = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings
    return findings[0].remedies[0]


def title(log: str) -> str:
    return first(log).title


def test_each_row_says_where_its_switches_are() -> None:
    assert all(one.sources and (one.precision or one.attention or one.update) for one in programs())
    assert len({one.name for one in programs()}) == len(programs())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("D:/ComfyUI_windows_portable/ComfyUI/execution.py", "ComfyUI"),
        ("/home/ann/ComfyUI/custom_nodes/ComfyUI-TRELLIS2/trellis2/modules/x.py", "ComfyUI"),
        ("/opt/webui_forge_cu121_torch231/webui/backend/attention.py", "Forge"),
        ("/home/ann/stable-diffusion-webui-forge/backend/attention.py", "Forge"),
        ("/home/ann/stable-diffusion-webui/modules/sd_hijack.py", "Stable Diffusion web UI"),
        ("[SPARSE] Backend: spconv, Attention: flash_attn", "TRELLIS"),
        ("/home/ann/open-r1/src/open_r1/grpo.py", "open-r1"),
        ("$ trl sft --model_name_or_path Qwen/Qwen3-0.6B", "trl's script"),
        ("/home/ann/transformers/examples/pytorch/language-modeling/run_clm.py", "the example script of transformers"),
        ("/env/lib/python3.11/site-packages/trl/trainer/sft_trainer.py", None),
        ("/home/ann/train.py", None),
        ("/data/comfy_dataset/a.png", None),
        ("I run ComfyUI on Windows", "ComfyUI"),
        ("I was not running ComfyUI at that time.", None),
        ("I stopped running ComfyUI before.", None),
        ("Same as in ComfyUI workflow I used before", None),
    ],
)
def test_a_line_tells_its_program(line: str, name: str | None) -> None:
    found = program_told(line)

    assert (found.name if found else None) == name


def test_a_node_is_updated_by_its_folder() -> None:
    remedy = first(frame("D:\\AI tools\\ComfyUI\\custom_nodes\\Some-Node\\nodes.py") + DTYPE)

    assert remedy.title.startswith("Update Some-Node")
    assert remedy.actions[0].commands == ('git -C "D:/AI tools/ComfyUI/custom_nodes/Some-Node" pull',)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/home/ann/ComfyUI/comfy/ops.py", "--force-fp16"),
        ("/home/ann/stable-diffusion-webui/modules/processing.py", "--no-half"),
        ("/home/ann/stable-diffusion-webui/extensions/sd-webui-x/scripts/y.py", "Update sd-webui-x"),
        ("/home/ann/musubi-tuner/networks/lora.py", "--mixed_precision bf16"),
        ("/home/ann/diffusers/examples/dreambooth/train_dreambooth_lora_flux.py", "--mixed_precision bf16"),
        ("/home/ann/app/TRELLIS/trellis/modules/x.py", "Update TRELLIS"),
        ("/env/lib/python3.11/site-packages/litgpt/model.py", "--precision bf16-true"),
        ("/env/lib/python3.11/site-packages/trl/scripts/sft.py", "--dtype bfloat16"),
        ("/env/lib/python3.11/site-packages/xinference/core/model.py", "--torch_dtype bfloat16"),
        ("/env/lib/python3.11/site-packages/vllm/worker/model_runner.py", "--dtype half"),
        ("/env/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", "--dtype half"),
        ("/home/ann/project/train.py", "under autocast"),
    ],
)
def test_precision_has_a_switch_where_the_program_has_one(path: str, words: str) -> None:
    assert words in title(frame(path) + DTYPE)


def test_a_precision_that_was_asked_for_already_is_not_asked_for_again() -> None:
    failing = frame("/env/lib/python3.11/site-packages/vllm/worker/model_runner.py") + DTYPE

    assert title("$ vllm serve moon-7b --dtype half\n" + failing).startswith("Update vLLM")
    assert "--dtype half" in title("$ vllm serve moon-7b --dtype bfloat16\n" + failing)


def test_another_attention_is_the_programs_own_setting() -> None:
    node = frame("C:\\ComfyUI\\custom_nodes\\ComfyUI-Wide\\full_attn.py")

    assert title(node + FLASH).startswith("Choose sdpa as the attention in the settings of ComfyUI-Wide")
    assert "ATTN_BACKEND=xformers" in title(node.replace("Wide", "TRELLIS2") + FLASH)
    assert "ATTN_BACKEND=xformers" in title("[SPARSE] Backend: spconv, Attention: flash_attn\n" + FLASH)
    assert "flash-attn" in title(frame("C:\\project\\model.py") + FLASH)


def test_an_engine_is_a_program_where_no_other_is_told() -> None:
    """Its switch is for its own kernels: it does not reach the code of a model below it."""
    engine = frame("/env/lib/python3.11/site-packages/vllm/worker/model_runner.py")
    models = "/env/lib/python3.11/site-packages/transformers/modeling_utils.py"
    around = frame("/home/ann/LLaMA-Factory/src/llamafactory/chat/vllm_engine.py")
    no_kernel = (
        "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
        "`cutlassF` is not supported because:\n    requires device with capability <= (9, 0) but your GPU has"
        " capability (12, 0) (too new)\n"
    )

    assert "Let vLLM take another attention" in title(engine + no_kernel)
    assert "vLLM" not in title(engine + f'  File "{models}", line 9, in check\n' + FLASH)
    assert "Let LLaMA-Factory take another attention" in title(around + engine.partition("\n")[2] + no_kernel)


def test_no_setting_reaches_what_a_node_calls_by_itself() -> None:
    """An import in a file's first lines, and xformers, which nodes take where it is there."""
    path = "C:\\ComfyUI\\custom_nodes\\ComfyUI-Wide\\attention.py"
    imports = frame(path).replace("in forward", "in <module>") + FLASH
    refused = frame(path) + (
        "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
        "`cutlassF` is not supported because:\n    xFormers wasn't build with CUDA support\n"
    )

    assert title(imports).startswith("Update ComfyUI-Wide")
    assert title(refused).startswith("Take xformers out of the Python that runs ComfyUI")


def test_comfyuis_report_has_its_calls_behind_the_message() -> None:
    path = "C:\\ComfyUI\\custom_nodes\\ComfyUI-WanVideoWrapper\\nodes.py"
    log = (
        "# ComfyUI Error Report\n- **Exception Message:** Allocation on device 0 would exceed allowed memory."
        f' (out of memory)\n## Stack Trace\n```\n  File "C:\\ComfyUI\\execution.py", line 327, in execute\n'
        f'  File "{path}", line 802, in forward\n    x = self.self_attn(x)\n```\n'
        "torch.OutOfMemoryError: Allocation on device\n"
    )

    assert title(log).startswith("ComfyUI-WanVideoWrapper keeps blocks")


def test_what_is_no_code_stays() -> None:
    """A torch without this GPU's code is no fault of a node."""
    log = frame("/home/ann/ComfyUI/custom_nodes/some-node/nodes.py") + (
        "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
        "installation.\n"
    )

    assert "torch" in title(log)
    assert "some-node" not in title(log)


def test_it_is_said_in_chinese() -> None:
    log = frame("/home/ann/ComfyUI/custom_nodes/some-node/nodes.py") + DTYPE
    finding = in_chinese(explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0])

    assert finding.remedies[0].title.startswith("更新出错代码所属的 some-node")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("TypeError: xformers_attention() got an unexpected keyword argument 'mask'", "Update some-node"),
        ("RuntimeError: Boolean value of attention mask is ambiguous: attn_mask must be 2D", "Update some-node"),
        ("ValueError: The head dimension 72 is not supported by this attention kernel", ""),
    ],
)
def test_a_family_of_calls_is_led_by_the_update(message: str, words: str) -> None:
    node = frame("/home/ann/ComfyUI/custom_nodes/some-node/nodes.py")

    assert title(node + message).startswith(words)
    assert "some-node" not in title(frame("/home/ann/project/model.py") + message)


@pytest.mark.parametrize(
    ("before", "folder"),
    [
        ("Cannot import D:\\AI tools\\ComfyUI", '"D:/AI tools/ComfyUI/custom_nodes/some-node"'),
        ("[12:00] Cannot import C:\\ComfyUI", '"C:/ComfyUI/custom_nodes/some-node"'),
        ("Cannot import ...\\ComfyUI", None),
    ],
)
def test_a_node_that_is_not_loaded_is_named_by_its_folder(before: str, folder: str | None) -> None:
    missing = "cannot import name 'attention_basic' from 'comfy.ldm.modules.attention'"
    remedy = first(f"{before}\\custom_nodes\\some-node module for custom nodes: {missing}\n")

    assert remedy.title.startswith("Update some-node")
    commands = [command.replace('"', "") for action in remedy.actions for command in action.commands]
    assert commands == ([f"git -C {folder} pull".replace('"', "")] if folder else [])


@pytest.mark.parametrize(
    ("path", "deeper", "words"),
    [
        ("/srv/stable-diffusion-webui/extensions-builtin/Lora/networks.py", 1, "--no-half"),
        ("/srv/stable-diffusion-webui/extensions/sd-webui-controlnet/scripts/batch_hijack.py", 3, "--no-half"),
        ("/srv/stable-diffusion-webui/extensions/sd-webui-controlnet/scripts/batch_hijack.py", 2, "Update sd-webui"),
    ],
)
def test_what_is_built_in_or_only_wraps_is_not_blamed(path: str, deeper: int, words: str) -> None:
    below = '  File "/srv/stable-diffusion-webui/modules/processing.py", line 9, in run\n    run()\n' * deeper

    assert words in title(frame(path) + below + DTYPE)


def test_each_repository_says_where_its_requirement_is() -> None:
    assert all(one.sources and one.asks.startswith("transformers") for one in repositories())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/home/ann/openvla-oft/prismatic/extern/hf/modeling_prismatic.py", "openvla-oft"),
        ("/home/ann/openvla/vla-scripts/finetune.py", "OpenVLA"),
        ("D:\\work\\LLaVA\\llava\\model\\builder.py", "LLaVA"),
        ("/home/ann/Video-LLaVA/videollava/model/builder.py", "Video-LLaVA"),
        (
            "/root/.cache/huggingface/modules/transformers_modules/deepseek-ai/DeepSeek-OCR/9f30/modeling_x.py",
            "DeepSeek-OCR",
        ),
        (
            "/c/modules/transformers_modules/openbmb/MiniCPM_hyphen_V_hyphen_2_6/ab/modeling_minicpmv.py",
            "MiniCPM-V 2.6",
        ),
        ("/c/modules/transformers_modules/chatglm2-6b-int4/modeling_chatglm.py", "ChatGLM2"),
        ("/c/modules/transformers_modules/microsoft/Phi-3_dot_5-vision-instruct/modeling_phi3_v.py", "Phi-3.5-vision"),
        ("/c/modules/transformers_modules/Qwen/Qwen-7B-Chat/modeling_qwen.py", None),
        ("/home/ann/LLaVA-Med/llava/model/builder.py", None),
        ("/env/lib/python3.10/site-packages/transformers/models/llava/modeling_llava.py", None),
    ],
)
def test_a_path_of_its_own_tells_a_repository(line: str, name: str | None) -> None:
    told = repository_told(line)

    assert (told and told.name) == name


def test_the_release_of_the_repository_comes_first() -> None:
    log = frame("/home/ann/LLaVA/llava/eval/model_vqa.py") + (
        "AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'\n"
    )

    assert title(log) == "Install the transformers that LLaVA was written for: transformers==4.37.2"


def test_what_an_addition_raises_is_mended_by_its_newer_release() -> None:
    """Python's own words; in code of the person's own they are looked into."""
    key = "KeyError: 'block_swap_args'\n"
    node = frame("/home/ann/ComfyUI/custom_nodes/ComfyUI-WanVideoWrapper/nodes.py")

    assert title(node + key).startswith("Update ComfyUI-WanVideoWrapper")
    assert "pdate" not in title(frame("/home/ann/train.py") + key)
    assert not title(frame("/home/ann/ComfyUI/comfy/sd.py") + key).startswith("Update")


def test_a_setting_that_is_made_is_not_its_way() -> None:
    """In any case of its value."""
    log = "docker run {} ghcr.io/huggingface/text-generation-inference:2.2.0 --model-id a/b\nNVIDIA T4\n" + FLASH
    assert "USE_FLASH_ATTENTION=False" in str(_remedies(log.format("--gpus all")))
    assert "environment" not in str([one.title for one in _remedies(log.format("-e USE_FLASH_ATTENTION=false"))])


def _remedies(log: str) -> tuple[Remedy, ...]:
    return explain_text(log, [*bundled(), *families()], FactSet()).diagnosis.findings[0].remedies
