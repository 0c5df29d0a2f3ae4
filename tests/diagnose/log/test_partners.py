"""A fix asks for no release beside which a partner that the log names does not run."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.data.partners import models_since, partners
from attn_doctor.recipes.shelf import bundled, families

HUB = "/root/.cache/huggingface/modules/transformers_modules/x"
NO_LENGTH = f'''Traceback (most recent call last):
  File "{HUB}/modeling_deepseek.py", line 1500, in forward
    past_key_values.get_usable_length(seq_length)
AttributeError: 'DynamicCache' object has no attribute 'get_usable_length'
'''
NO_ARGUMENT = """Traceback (most recent call last):
  File "/home/u/x/train.py", line 20, in <module>
    model(attn_implementation='sdpa')
  File "/home/u/e/lib/python{python}/site-packages/transformers/modeling_utils.py", line 20, in from_pretrained
    model = cls(config, *model_args, **model_kwargs)
TypeError: __init__() got an unexpected keyword argument 'attn_implementation'
"""
CHATGLM = f'''Traceback (most recent call last):
  File "{HUB}/tokenization_chatglm.py", line 100, in vocab_size
    return self.tokenizer.n_words
AttributeError: 'ChatGLMTokenizer' object has no attribute 'tokenizer'. Did you mean: 'tokenize'?
'''
NO_NUMPY = "ImportError: numpy.core.multiarray failed to import\n"
QWEN3 = f'''Traceback (most recent call last):
  File "{HUB}/modeling_x.py", line 700, in forward
    x = self.layer(x)
  File "/usr/lib/python3/dist-packages/transformers/models/{{model}}/modeling_{{model}}.py", line 300, in forward
    cos, sin = position_embeddings
TypeError: cannot unpack non-iterable NoneType object
'''
NO_SHARDS = """Traceback (most recent call last):
  File "/home/u/x/train.py", line 20, in <module>
    from peft import get_peft_model
  File "/home/u/e/lib/python3.10/site-packages/accelerate/checkpointing.py", line 20, in <module>
    from huggingface_hub import split_torch_state_dict_into_shards
ImportError: cannot import name 'split_torch_state_dict_into_shards' from 'huggingface_hub'
"""
NO_STEP = """Traceback (most recent call last):
  File "/home/u/train.py", line 10, in <module>
    trainer.train()
  File "/home/u/.venv/lib/python3.11/site-packages/transformers/trainer.py", line 3700, in training_step
    x
TypeError: MyTrainer.training_step() takes 3 positional arguments but 4 were given
"""
NO_CACHE = """Traceback (most recent call last):
  File "/content/train.py", line 10, in <module>
    from peft import LoraConfig
  File "/usr/local/lib/python3.12/dist-packages/peft/utils/x.py", line 20, in <module>
    from transformers import HybridCache
ImportError: cannot import name 'HybridCache' from 'transformers'
"""


def first_fix(log: str) -> tuple[str, str]:
    """Title and commands of the first remedy."""
    remedy = explain_text(log, (*bundled(), *families()), FactSet(), pasted=False).diagnosis.findings[0].remedies[0]
    return remedy.title, "\n".join(command for one in remedy.actions for command in one.commands)


@pytest.mark.parametrize(
    ("log", "title"),
    [
        ("vLLM API server version 0.10.1\n" + NO_LENGTH, r"vllm 0\.10\.1 needs transformers>=4\.55\.0"),
        ("trl==0.24.0\n" + NO_LENGTH, r"trl 0\.24\.0 needs transformers>=4\.56\.1"),
        ("Python version: 3.13.5\n" + CHATGLM, r"Python 3\.13 needs transformers 4\.35"),
        ("Python 3.13.2\n" + NO_NUMPY, r"Python 3\.13 needs numpy 2\.1"),
        (QWEN3.format(model="qwen3"), r"the model qwen3 needs transformers>=4\.51"),
        (NO_ARGUMENT.format(python="3.7"), r"new environment .*Python 3\.7 goes with transformers 4\.30\.2 or older"),
        (
            "torch==1.9.1\n" + NO_ARGUMENT.format(python="3.8"),
            r"new environment .*torch 1\.9\.1 goes with transformers",
        ),
    ],
)
def test_what_a_partner_forbids_goes_behind(log: str, title: str) -> None:
    said, commands = first_fix(log)
    assert re.search(title, said)
    assert "install" not in commands


@pytest.mark.parametrize(
    ("log", "command"),
    [
        (NO_LENGTH, "transformers<4.54"),
        ("vLLM API server version 0.9.2\n" + NO_LENGTH, "transformers<4.54"),
        ("Python 3.12.2\n" + NO_NUMPY, "numpy<2"),
        (QWEN3.format(model="llama"), "transformers<4.48"),
        # held to what fits
        ("torch==1.10.1\n" + NO_ARGUMENT.format(python="3.8"), "transformers>=4.36,<4.37"),
        (NO_ARGUMENT.format(python="3.10"), "transformers>=4.36,<5"),
        (NO_SHARDS, "huggingface-hub>=0.21,<0.25"),
        ("transformers==4.40.2\n" + NO_CACHE.replace("HybridCache", "EncoderDecoderCache"), "peft<0.14"),
    ],
)
def test_what_fits_stays_first(log: str, command: str) -> None:
    assert command in first_fix(log)[1]


OLD = "bitsandbytes/cuda_setup/main.py: CUDA SETUP: Loading binary /e/bitsandbytes/libbitsandbytes_cuda118.so...\n"
NO_KERNEL = "Error no kernel image is available for execution on the device at line 167 in file /src/csrc/ops.cu"


def test_the_torch_of_that_time_where_the_log_names_none() -> None:
    """Newer releases of bitsandbytes ask for a torch that was not there yet."""
    assert '"bitsandbytes<0.45"' in first_fix(OLD + NO_KERNEL)[1]
    assert '"bitsandbytes<' not in first_fix("torch==2.9.0\n" + OLD + NO_KERNEL)[1]
    assert '"bitsandbytes<' not in first_fix(NO_KERNEL)[1]


def test_what_else_a_remedy_says_stays_without_the_command() -> None:
    said, commands = first_fix("trl==0.24.0\ntransformers==4.57.1\n" + NO_STEP)
    assert said.startswith("Write the trainer's def training_step")
    assert "install" not in commands
    assert "transformers<4.46" in first_fix(NO_STEP)[1]


def test_the_table_names_what_it_has() -> None:
    for one in partners().values():
        assert list(one.releases) == sorted(one.releases, key=lambda text: [int(part) for part in text.split(".")])
    assert models_since()["qwen3"] == "4.51"
    assert partners()["transformers"].needs("4.46.3")["python"] == ">=3.8,<3.14"
    assert partners()["transformers"].needs("main") == {}
