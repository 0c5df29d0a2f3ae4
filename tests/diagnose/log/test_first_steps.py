"""Steps that a family offers only where the log has a sign of the program that they are for."""

from __future__ import annotations

import pytest

from attn_doctor.workflows.explain import ExplainRequest, explain

TRAINER = '  File "/e/lib/python3.10/site-packages/transformers/trainer.py", line 3700, in compute_loss\n'


def steps(text: str) -> str:
    findings = explain(ExplainRequest(texts=(text,))).diagnosis.findings
    return "\n".join(remedy.title for one in findings for remedy in one.remedies)


@pytest.mark.parametrize(
    ("log", "step"),
    [
        ("sdxl_train_network.py: error: unrecognized arguments: --clip_l /m/clip_l.st", "flux_train_network.py"),
        ("COMMANDLINE_ARGS=--moon\nlaunch.py: error: unrecognized arguments: --moon", "webui-user.bat"),
        (TRAINER + "KeyError: 'eval_accuracy'", "metric_for_best_model"),
        ("torch\n./webui.sh: line 31: : command not found\nTorch not installed", "PYTHON=python3"),
        (
            TRAINER + '  File "/w/moon.py", line 12, in compute_loss\n    w = inputs["moon"]\nKeyError: \'moon\'',
            "remove_unused_columns=False",
        ),
        ("torch\nAttributeError: 'Qwen2VLProcessor' object has no attribute 'pad'", "processor.tokenizer"),
        ("torch\nAttributeError: 'dict' object has no attribute 'peft_type'", "LoraConfig(**config)"),
        (TRAINER + "TypeError: BertModel.forward() got an unexpected keyword argument 'labels'", "ForSequence"),
        (TRAINER + "TypeError: MoonNet.forward() got an unexpected keyword argument 'labels'", "your model's"),
    ],
)
def test_a_step_of_one_program_is_offered_where_that_program_is(log: str, step: str) -> None:
    assert step in steps(log)


@pytest.mark.parametrize(
    ("log", "step"),
    [
        ("train.py: error: unrecognized arguments: --guidance_scale 3.5", "flux_train_network.py"),
        ("launch.py [--nproc_per_node N]\nlaunch.py: error: unrecognized arguments: --moon", "webui-user.bat"),
        ("torch\n  File \"train.py\", line 8\nKeyError: 'eval_batch_size'", "metric_for_best_model"),
        ("torch\n./run.sh: line 8: : command not found", "PYTHON=python3"),
        (
            (
                "from transformers import AutoTokenizer\n"
                '  File "/w/serve.py", line 31, in run\n    x = inputs["moon"]\nKeyError: \'moon\''
            ),
            "remove_unused_columns=False",
        ),
        ("torch\nAttributeError: 'PaymentProcessor' object has no attribute 'pad'", "processor.tokenizer"),
        ("torch\nAttributeError: 'dict' object has no attribute 'task_type'", "LoraConfig(**config)"),
        (
            "peft==0.13\n" + TRAINER + "TypeError: ViTForMoon.forward() got an unexpected keyword argument 'input_ids'",
            "task_type",
        ),
        (
            (
                "llamafactory-cli train --finetuning_type lora --model_name_or_path /models/Moon-8B\n"
                "OSError: Error no file named model.safetensors found in directory /models/Moon-8B."
            ),
            "PeftModel.from_pretrained",
        ),
        ("macOS 14.5, Apple M2\nERROR: Failed building wheel for tensorrt", "tensorrt-cu12-libs"),
        ("Jetson Orin, JetPack 6.1\nERROR: Failed building wheel for tensorrt", "tensorrt-cu12-libs"),
    ],
)
def test_and_nowhere_else(log: str, step: str) -> None:
    assert step not in steps(log)
