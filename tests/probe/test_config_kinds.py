"""Whose configuration a file is, what it says, and what contradicts what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import FactSet
from attn_doctor.probe.configs import configs

TRAIN = "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\n"
FP16_ON = "fp16.enabled is true, and fp16 is false in train.yaml"
AXOLOTL = "base_model: Qwen/Qwen2.5-7B\ndatasets:\n  - path: x\nadapter: lora\n"
ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: {}\nnum_processes: 8\n"
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000}


def deepspeed(**sections: object) -> str:
    return json.dumps({"train_batch_size": "auto", "zero_optimization": {"stage": 2}, **sections}, indent=2)


def on(value: object) -> dict[str, object]:
    return {"enabled": value}


class Files:
    """Writes files, and gives facts of those named together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.named: list[Path] = []

    def add(self, name: str, text: str) -> Files:
        file = self.folder / name
        file.write_bytes(text.encode())
        self.named.append(file)
        return self

    def facts(self) -> FactSet:
        return FactSet(configs.probe(tuple(self.named)))

    def value(self, name: str, attribute: str) -> object:
        return self.facts().value(f"config.{self.folder / name}.{attribute}")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "framework"),
    [
        ("a.yaml", TRAIN, "llamafactory"),
        ("a.yml", AXOLOTL, "axolotl"),
        ("a.yaml", ACCELERATE.format("bf16"), "accelerate"),
        ("config.json", json.dumps(MODEL), "transformers"),
        ("ds.json", deepspeed(bf16=on(True)), "deepspeed"),
        ("zero3.config", deepspeed(bf16=on(True)), "deepspeed"),
        ("accelerate", ACCELERATE.format("'no'").replace("\n", "\r\n"), "accelerate"),
    ],
)
def test_the_kind_is_told_from_the_content(files: Files, name: str, text: str, framework: str) -> None:
    """Whatever the file is called; and the keys that told are named."""
    facts = files.add(name, text).facts()
    fact = facts.fact(f"config.{files.folder / name}.framework")

    assert facts.value(fact.name) == framework
    assert "it has " in fact.how


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\n", "dtype: x\n", '{"bf16": {"enabled": true}}', "[1, 2]", "bf16: true\n"]
)
def test_what_tells_nothing_is_no_configuration(files: Files, text: str) -> None:
    """One message, and no guess."""
    with pytest.raises(BadInput):
        files.add("a.yaml", text).facts()


@pytest.mark.parametrize(
    ("name", "text", "attention", "half", "line"),
    [
        ("c.json", json.dumps({**MODEL, "torch_dtype": "float32"}, indent=1), None, "none", None),
        ("c.json", json.dumps({**MODEL, "_attn_implementation": "flash_attention_2", "dtype": "bfloat16"}, indent=1),
         "flash_attention_2", "bf16", 7),
        ("c.json", json.dumps(MODEL), None, "checkpoint", None),
        ("a.yaml", AXOLOTL + "flash_attention: true\nbf16: false\n", "flash_attention_2", "none", 5),
        ("a.yaml", AXOLOTL + "flash_attention: true\n", "flash_attention_2", "auto", 5),
        ("a.yaml", AXOLOTL + "attn_implementation: sdpa\nbf16: full\n", "sdpa", "bf16", 5),
        ("a.yaml", AXOLOTL + "sdp_attention: on\nfp16: true\nbf16: false\n", "sdpa", "fp16", 5),
        ("a.yaml", ACCELERATE.format("'no'"), None, "none", None),
        ("a.yaml", ACCELERATE.format("fp8"), None, "fp8", None),
        ("d.json", deepspeed(bf16=on("auto"), fp16=on("auto")), None, "auto", None),
        ("d.json", deepspeed(bfloat16=on(True)), None, "bf16", None),
        ("d.json", deepspeed(fp16=on("true")), None, "fp16", None),
    ],
)  # fmt: skip
def test_what_it_says(files: Files, name: str, text: str, attention: object, half: str, line: object) -> None:
    """Attention and precision, by the rules of its framework."""
    files.add(name, text)

    assert files.value(name, "effective_attention") == attention
    assert files.value(name, "half_precision") == half
    assert files.value(name, "attention_line") == line


def test_places_in_sections(files: Files) -> None:
    """A key of a section is told with its own line, not with that of another section's."""
    files.add("d.json", deepspeed(note="bf16", fp16=on(False), bf16=on(True)))

    lines = (files.folder / "d.json").read_text().splitlines()
    place = str(files.value("d.json", "precision_place"))
    number = int(place.rpartition(":")[2])
    assert '"enabled": true' in lines[number - 1]


@pytest.mark.parametrize(
    ("train", "sections", "conflict"),
    [
        ("bf16: true\n", {"fp16": on(True)}, FP16_ON),
        ("bf16: true\n", {"bf16": on(False)}, "bf16.enabled is false, and bf16 is true in train.yaml"),
        ("bf16: true\n", {"bf16": on("true")}, 'bf16.enabled is "true", and bf16 is true in train.yaml'),
        ("", {"bf16": on(True)}, "bf16.enabled is true, and bf16 is false in train.yaml"),
        ("fp16: true\n", {"fp16": on(True), "bf16": on(False)}, None),
        ("bf16: true\n", {"fp16": on("auto"), "bf16": on("auto")}, None),
        ("bf16: true\n", {}, None),
        ("bf16: true\n", {"fp16": {"loss_scale": 0}}, None),
        ("bf16: true\ndeepspeed: other.json\n", {"fp16": on(True)}, None),
        ("bf16: true\ndeepspeed: conf/ds.json\n", {"fp16": on(True)}, FP16_ON),
        ("bf16: true\ndeepspeed: ds.json\n", {"fp16": on(True)}, FP16_ON),
    ],
)  # fmt: skip
def test_deepspeed_against_the_trainer(files: Files, train: str, sections: dict[str, object], conflict: object) -> None:
    """Held against each other as the trainer does it; a file that the trainer does not name is another run's."""
    files.add("train.yaml", TRAIN + train).add("ds.json", deepspeed(**sections))

    assert files.value("ds.json", "precision_conflict") == conflict


@pytest.mark.parametrize(
    ("mixed", "sections", "rules"),
    [
        ("bf16", {"fp16": on(True)}, ("DeepSpeed against accelerate",)),
        ("fp16", {"bf16": on(True)}, ("DeepSpeed against accelerate",)),
        ("fp16", {"fp16": on(True), "bf16": on("auto")}, None),
        ("'no'", {"bf16": on(True)}, None),
        ("fp16", {"fp16": on(True), "bf16": on(True)}, ("both halves", "DeepSpeed against accelerate")),
    ],
)
def test_deepspeed_against_accelerate(files: Files, mixed: str, sections: dict[str, object], rules: object) -> None:
    """What accelerate refuses, and nothing else."""
    files.add("a.yaml", ACCELERATE.format(mixed)).add("ds.json", deepspeed(**sections))

    assert files.value("ds.json", "precision_conflicts") == rules


@pytest.mark.parametrize(
    ("mixed", "train", "wanted"),
    [
        ("fp16", "bf16: true\n", "bf16"),
        ("'no'", "fp16: true\n", "fp16"),
        ("bf16", "bf16: true\n", None),
        ("bf16", "", None),
    ],
)
def test_accelerate_against_the_trainer(files: Files, mixed: str, train: str, wanted: object) -> None:
    """The trainer's own goes first; where it asks for nothing accelerate's is taken, and that is no contradiction."""
    files.add("a.yaml", ACCELERATE.format(mixed)).add("train.yaml", TRAIN + train)

    assert files.value("a.yaml", "precision_wanted") == wanted


@pytest.mark.parametrize(
    ("name", "text", "halves"),
    [
        ("a.yaml", TRAIN + "bf16: true\nfp16: true\n", "bf16 and fp16"),
        ("a.yaml", TRAIN + "bf16: true\npure_bf16: true\n", "bf16 and pure_bf16"),
        ("a.yaml", TRAIN + "bf16: true\nfp16: false\n", None),
        ("a.yaml", TRAIN + "bf16: true\nfp16: true\nfp16: false\n", None),
        ("d.json", deepspeed(bf16=on(True), fp16=on(True)), "bf16 and fp16"),
        ("d.json", deepspeed(bf16=on(True), fp16=on(False)), None),
        ("a.yaml", AXOLOTL + "bf16: true\nfp16: true\n", "bf16 and fp16"),
    ],
)
def test_both_at_once(files: Files, name: str, text: str, halves: object) -> None:
    """In one file; of a key that stands twice the last one counts."""
    assert files.add(name, text).value(name, "both_halves") == halves
