"""LLaMA-Factory configurations in every form they come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import FactSet
from attn_doctor.probe.configs import configs

SFT = """### model
model_name_or_path: Qwen/Qwen2.5-7B
# flash_attn: sdpa
stage: sft
do_train: true
finetuning_type: full
flash_attn: fa2   # fast
"""


def seen(tmp_path: Path, text: str, name: str = "train.yaml") -> dict[str, object]:
    file = tmp_path / name
    file.write_bytes(text.encode())
    found = FactSet(configs.probe((file,)))
    own = f"config.{file}."
    return {
        key: found.value(own + key)
        for key in ("attention", "attention_line", "effective_attention", "half_precision", "trains", "model")
    }


def test_plain(tmp_path: Path) -> None:
    """The key, its line, and that nothing asks for half precision; a comment is no key."""
    assert seen(tmp_path, SFT) == {
        "attention": "fa2",
        "attention_line": 7,
        "effective_attention": "fa2",
        "half_precision": "none",
        "trains": True,
        "model": "Qwen/Qwen2.5-7B",
    }


@pytest.mark.parametrize("key", ["bf16", "fp16", "pure_bf16"])
def test_half(tmp_path: Path, key: str) -> None:
    """Each of the three keys makes the run half precision, and only when it is true."""
    assert seen(tmp_path, f"{SFT}{key}: true\n")["half_precision"] == key
    assert seen(tmp_path, f"{SFT}{key}: false\n")["half_precision"] == "none"


def test_crlf_quotes_and_yaml_1_1(tmp_path: Path) -> None:
    """Windows line ends, quotes, and `on`/`off` as PyYAML reads them."""
    text = SFT.replace("\n", "\r\n").replace("fa2", "'fa2'") + "bf16: on\r\n"

    assert seen(tmp_path, text)["attention"] == "fa2"
    assert seen(tmp_path, text)["half_precision"] == "bf16"
    assert seen(tmp_path, SFT.replace("fa2", "off"))["attention"] == "off"


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    """PyYAML takes the last one; so does the run."""
    found = seen(tmp_path, SFT + "flash_attn: auto\n")

    assert (found["attention"], found["attention_line"]) == ("auto", 8)


def test_absent_key(tmp_path: Path) -> None:
    """Without the key the framework chooses: auto."""
    found = seen(tmp_path, SFT.replace("flash_attn: fa2", "cutoff_len: 1024"))

    assert (found["attention"], found["effective_attention"]) == (None, "auto")


def test_gemma2_turns_auto_into_fa2(tmp_path: Path) -> None:
    """By name, and by the model_type of a local folder whatever its name."""
    auto = SFT.replace("fa2", "auto")
    assert seen(tmp_path, auto.replace("Qwen/Qwen2.5-7B", "google/gemma-2-9b-it"))["effective_attention"] == "fa2"
    local = tmp_path / "mine"
    local.mkdir()
    (local / "config.json").write_text('{"model_type": "gemma2"}')
    assert seen(tmp_path, auto.replace("Qwen/Qwen2.5-7B", str(local)))["effective_attention"] == "fa2"
    assert seen(tmp_path, auto.replace("Qwen/Qwen2.5-7B", "google/gemma-7b"))["effective_attention"] == "auto"


def test_json(tmp_path: Path) -> None:
    """JSON with its line."""
    text = '{\n "stage": "sft",\n "do_train": true,\n "flash_attn": "fa2",\n "bf16": true\n}\n'
    found = seen(tmp_path, text, "train.json")

    assert (found["attention"], found["attention_line"], found["half_precision"]) == ("fa2", 4, "bf16")


@pytest.mark.parametrize("argument", ["--flash_attn fa2", "--flash_attn=fa2", "flash_attn=fa2"])
def test_shell(tmp_path: Path, argument: str) -> None:
    """Both spellings in a script with continued lines; what stands in a comment or another command is no argument."""
    text = (
        "#!/bin/bash\n# llamafactory-cli train --flash_attn sdpa\necho --flash_attn sdpa\n"
        f"CUDA_VISIBLE_DEVICES=0 llamafactory-cli train \\\n    --stage sft \\\n    --do_train \\\n    {argument}\n"
    )
    found = seen(tmp_path, text, "run.sh")

    assert (found["attention"], found["attention_line"], found["half_precision"]) == ("fa2", 7, "none")


def test_web_ui(tmp_path: Path) -> None:
    """Arguments that the web UI saved speak its own words."""
    text = "top.booster: flashattn2\ntop.finetuning_type: lora\ntop.model_path: Qwen/Q\ntrain.compute_type: bf16\n"
    found = seen(tmp_path, text)

    assert (found["attention"], found["half_precision"], found["attention_line"]) == ("fa2", "bf16", 1)


def test_predict_without_precision(tmp_path: Path) -> None:
    """Without training there is no autocast: the checkpoint decides, unless infer_dtype does."""
    text = SFT.replace("do_train", "do_predict")

    assert seen(tmp_path, text)["half_precision"] == "checkpoint"
    assert seen(tmp_path, text + "infer_dtype: float32\n")["half_precision"] == "none"
    assert seen(tmp_path, text + "infer_dtype: bfloat16\n")["half_precision"] == "bf16"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", b"\xff\xfe\0\0garbage"),
        ("a.yaml", b"a: [1,\n"),
        ("a.yaml", b"- a\n- b\n"),
        ("a.yaml", b"just words"),
        ("a.yaml", b""),
        ("a.yaml", b"name: deployment\nkind: Pod\n"),
        ("a.yaml", b"&a [*a]"),
        ("a.yaml", b"[" * 5000),
        ("a.json", b"{"),
        ("a.json", b"[" * 100000),
        ("a.json", b"[]"),
        ("a.sh", b"#!/bin/sh\necho hello\n"),
        ("a.yaml", b"stage: x\n" * 1_000_000),
        (
            "a.yaml",
            b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b"*a%d, " % (n - 1) * 9) for n in range(1, 30)),
        ),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, name: str, content: bytes) -> None:
    """Anything else is one clear error."""
    file = tmp_path / name
    file.write_bytes(content)

    with pytest.raises(BadInput):
        configs.probe((file,))


def test_a_missing_file(tmp_path: Path) -> None:
    """So is a file that is not there, and a folder."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(BadInput):
            configs.probe((path,))
