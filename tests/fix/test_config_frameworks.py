# ruff: noqa: E501 -- whole files on one line show line ends, quotes and spaces as they are
"""set-config on the files of other frameworks: model, DeepSpeed, accelerate, axolotl. Byte-exact, and as a law."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_doctor.fix.edits.config import planned
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused

SDPA = {"attn_implementation": "sdpa"}
BF16 = {"dtype": "bfloat16"}
AUTO = {"bf16.enabled": "auto", "fp16.enabled": "auto"}

MODEL = b"""{
  "_name_or_path": "x/flash_attention_2",
  "architectures": [
    "LlamaForCausalLM"
  ],
  "attn_implementation": "flash_attention_2",
  "model_type": "llama",
  "text_config": {"torch_dtype": "float32", "attn_implementation": "flash_attention_2"},
  "torch_dtype": "float32",
  "vocab_size": 32000
}
"""
ZERO = b"""{
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {
        "stage": 3, "enabled": true
    },
    "fp16": {
        "enabled":   true  ,
        "loss_scale": 0
    },
    "bf16": {"enabled": false},
    "note": "\\"fp16\\": {\\"enabled\\": true}"
}"""
ACCELERATE = b"""compute_environment: LOCAL_MACHINE
deepspeed_config:
  deepspeed_config_file: ds.json
  mixed_precision: fp16   # not this one
distributed_type: DEEPSPEED
# mixed_precision: fp16
mixed_precision: fp16 # half
num_processes: 8
"""
AXOLOTL = b"""base_model: Qwen/Qwen2.5-7B
datasets:
  - path: mhenrichsen/alpaca_2k_test
    type: alpaca
adapter: lora

flash_attention: true  # fast
bf16: false
"""

CASES = {
    "model": ("config.json", MODEL, SDPA, MODEL.replace(b'  "attn_implementation": "flash_attention_2",\n  "model', b'  "attn_implementation": "sdpa",\n  "model')),
    "model, as remote code names it": (
        "config.json",
        b'{"model_type":"phi3_v","_attn_implementation":"flash_attention_2","auto_map":{}}',
        SDPA,
        b'{"model_type":"phi3_v","_attn_implementation":"sdpa","auto_map":{}}',
    ),
    "model, both names: the public one": (
        "config.json",
        b'{"model_type":"x","_attn_implementation":"eager","attn_implementation":"flash_attention_2"}',
        SDPA,
        b'{"model_type":"x","_attn_implementation":"eager","attn_implementation":"sdpa"}',
    ),
    "model, dtype under its old name": ("config.json", MODEL, BF16, MODEL.replace(b'\n  "torch_dtype": "float32"', b'\n  "torch_dtype": "bfloat16"')),
    "model, dtype under its new name, twice, CRLF": (
        "config.json",
        b'{\r\n "model_type": "x",\r\n "dtype": "float32",\r\n "vocab_size": 1,\r\n "dtype": "float32"\r\n}',
        BF16,
        b'{\r\n "model_type": "x",\r\n "dtype": "float32",\r\n "vocab_size": 1,\r\n "dtype": "bfloat16"\r\n}',
    ),
    "model, a key that is not there": ("config.json", b'{"model_type": "x", "vocab_size": 1}', SDPA, b'{"model_type": "x", "vocab_size": 1, "attn_implementation": "sdpa"}'),
    "DeepSpeed": ("ds.json", ZERO, AUTO, ZERO.replace(b'"enabled":   true  ,', b'"enabled":   "auto"  ,').replace(b'"bf16": {"enabled": false}', b'"bf16": {"enabled": "auto"}')),
    "DeepSpeed, one section": (
        "ds_zero2.config",
        b'{"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}\n',
        AUTO,
        b'{"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}\n',
    ),
    "DeepSpeed, a section under its old name": (
        "ds.json",
        b'{"train_batch_size": 8, "zero_optimization": {}, "bfloat16": {"enabled": true}}',
        AUTO,
        b'{"train_batch_size": 8, "zero_optimization": {}, "bfloat16": {"enabled": "auto"}}',
    ),
    "DeepSpeed, short names": ("ds.json", ZERO, {"fp16": "false"}, ZERO.replace(b'"enabled":   true  ,', b'"enabled":   false  ,')),
    "accelerate": ("default_config.yaml", ACCELERATE, {"mixed_precision": "bf16"}, ACCELERATE.replace(b"\nmixed_precision: fp16 # half", b"\nmixed_precision: bf16 # half")),
    "accelerate, no in quotes, CRLF, no newline at the end": (
        "a.yaml",
        b"distributed_type: NO\r\nnum_processes: 1\r\nmixed_precision: 'no'",
        {"mixed_precision": "fp16"},
        b"distributed_type: NO\r\nnum_processes: 1\r\nmixed_precision: 'fp16'",
    ),
    "axolotl, switches": ("a.yml", AXOLOTL, SDPA, AXOLOTL.replace(b"flash_attention: true", b"flash_attention: false") + b"sdp_attention: true\n"),
    "axolotl, one key": (
        "a.yml",
        AXOLOTL.replace(b"flash_attention: true", b"attn_implementation: flash_attention_2"),
        SDPA,
        AXOLOTL.replace(b"flash_attention: true", b"attn_implementation: sdpa"),
    ),
    "axolotl, precision": ("a.yml", AXOLOTL, {"bf16": "true"}, AXOLOTL.replace(b"bf16: false", b"bf16: true")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_only_the_value_changes(case: str) -> None:
    """Order, spaces, comments, quotes, line ends, other sections and every decoy stay, byte for byte."""
    name, before, settings, after = CASES[case]
    edit = planned(name, before, settings)

    assert edit is not None
    assert spliced(before, edit.splices) == after
    assert planned(name, after, settings) is None


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("ds.json", b'{"train_batch_size": 8, "zero_optimization": {"stage": 2}}', AUTO),
        ("ds.json", b'{"train_batch_size": 8, "zero_optimization": {}, "fp16": {"loss_scale": 0}}', {"fp16": "false"}),
        ("a.yml", b"base_model: x\nadapter: lora\n", {"fp16": "false"}),
        ("a.yml", b"base_model: x\nadapter: lora\n", {"bf16": "auto"}),
        ("a.yaml", b"stage: sft\nfinetuning_type: lora\n", {"flash_attn": "auto"}),
        ("a.yaml", b"distributed_type: NO\nnum_processes: 1\n", {"mixed_precision": "no"}),
    ],
)
def test_an_absent_key_whose_default_is_right(name: str, content: bytes, settings: dict[str, str]) -> None:
    """It is no edit."""
    assert planned(name, content, settings) is None


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("ds.json", b'{"train_batch_size": 8, "zero_optimization": {}, "fp16": "auto"}', {"fp16.enabled": "true"}),
        ("ds.json", b'{"train_batch_size": 8, "zero_optimization": {}}', {"fp16.enabled": "true"}),
        ("ds.json", b'{"train_batch_size": 8, "zero_optimization": {}, "fp16": {"enabled": [1]}}', AUTO),
        ("config.json", b'{"model_type": "x", "vocab_size": 1, "dtype": {"a": "float32"}}', BF16),
        ("a.yml", AXOLOTL, {"attn_implementation": "flex_attention"}),
        ("a.yml", AXOLOTL, {"attn_implementation": 'sdpa"\nevil: 1'}),
        ("config.json", MODEL, {"attn_implementation": 'sdpa", "auto_map": "evil'}),
        ("config.json", MODEL, {'x": 1, "auto_map': "sdpa"}),
        ("config.json", MODEL, {"dtype": "bfloat16\u2028"}),
        ("a.yaml", ACCELERATE, {"mixed_precision": "!!python/object:os.system"}),
        ("a.yaml", b"num_processes: 1\ndistributed_type: NO\nmixed_precision: &x fp16\ny: *x\n", {"mixed_precision": "bf16"}),
    ],
)  # fmt: skip
def test_what_a_program_should_not_do_is_left(name: str, content: bytes, settings: dict[str, str]) -> None:
    """No section, another form, a value that would be more than a value."""
    with pytest.raises(Refused) as refused:
        planned(name, content, settings)

    assert str(refused.value)


def test_a_section_that_stands_twice_is_told() -> None:
    """The last one counts, as in every JSON reader."""
    before = b'{"train_batch_size": 1, "zero_optimization": {},\n"fp16": {"enabled": true},\n"fp16": {"enabled": true}}'
    edit = planned("ds.json", before, {"fp16.enabled": "auto"})

    assert edit is not None
    assert "lines 2, 3" in edit.warnings[0]
    assert json.loads(spliced(before, edit.splices))["fp16"] == {"enabled": "auto"}


# What people write: any keys and values beside those that tell whose file it is.
WORDS = st.text(alphabet="abcxyz_é你 -#:'\"{}[],\\\t/", max_size=12)
SCALARS = st.one_of(
    st.booleans(), st.integers(-5, 5), st.none(), WORDS, st.floats(allow_nan=False, allow_infinity=False, width=16)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
SPACES = st.sampled_from([None, 1, 2, 4])


@st.composite
def model_files(draw: st.DrawFn) -> tuple[bytes, str]:
    """A config.json with anything in it, and the key that is to change."""
    key = draw(st.sampled_from(["attn_implementation", "_attn_implementation"]))
    table: dict[str, Any] = {"model_type": "llama", key: "flash_attention_2", "vocab_size": 1}
    more = draw(st.dictionaries(WORDS, VALUES, max_size=5))
    items = draw(st.permutations(list({**more, **table}.items())))
    text = json.dumps(dict(items), indent=draw(SPACES), ensure_ascii=draw(st.booleans()))
    return (text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n"]))).encode(), key


@given(model_files())
def test_json_law(made: tuple[bytes, str]) -> None:
    """Everything outside the span is unchanged, and parsed again it is what was planned and nothing else."""
    before, key = made
    edit = planned("config.json", before, SDPA)

    assert edit is not None
    (splice,) = edit.splices
    after = spliced(before, edit.splices)
    assert after[: splice.start] == before[: splice.start]
    assert after[splice.start + len(splice.text.encode()) :] == before[splice.end :]
    assert json.loads(after) == {**json.loads(before), key: "sdpa"}


@given(
    st.lists(st.tuples(st.sampled_from(["lr", "note", "flash", "path", "é"]), SCALARS), max_size=5),
    st.sampled_from(["fp16", "'fp16'", '"fp16"', "fp16  # mixed_precision: fp16", "no", "'no'"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(0, 5),
)
def test_yaml_law(more: list[tuple[str, Any]], written: str, newline: str, ended: bool, place: int) -> None:
    """The same for YAML, with whatever stands around it."""
    lines = [f"{key}{number}: {json.dumps(value, ensure_ascii=False)}" for number, (key, value) in enumerate(more)]
    lines.insert(min(place, len(lines)), f"mixed_precision: {written}")
    before = (newline.join(["distributed_type: MULTI_GPU", *lines, "num_processes: 8"]) + newline * ended).encode()
    yaml = pytest.importorskip("yaml", reason="PyYAML, which the frameworks read with, is not installed")
    read = yaml.safe_load(before)
    assume(isinstance(read, dict))
    edit = planned("a.yaml", before, {"mixed_precision": "bf16"})

    assert edit is not None
    (splice,) = edit.splices
    after = spliced(before, edit.splices)
    assert after[: splice.start] == before[: splice.start]
    assert after[splice.start + len(splice.text.encode()) :] == before[splice.end :]
    assert yaml.safe_load(after) == {**read, "mixed_precision": "bf16"}


SECTIONS = st.sampled_from(["zero_optimization", "optimizer", "fp16_decoy", "flops_profiler", "amp"])
INNER = st.dictionaries(st.sampled_from(["enabled", "fp16", "stage", "note"]), SCALARS, max_size=3)


@given(
    st.dictionaries(SECTIONS, INNER, max_size=4),
    INNER,
    st.permutations(["train_batch_size", "gradient_clipping", "fp16", "more"]),
    st.sampled_from([True, False, "true"]),
    SPACES,
)
def test_section_law(
    more: dict[str, dict[str, Any]], own: dict[str, Any], order: list[str], value: object, indent: int | None
) -> None:
    """A key of a section, among sections that have a key of that name: that one span changes and nothing else."""
    table: dict[str, Any] = {}
    for name in order:
        if name == "more":
            table.update(more)
        else:
            table[name] = {**own, "enabled": value} if name == "fp16" else 1
    before = json.dumps(table, indent=indent).encode()
    edit = planned("ds.json", before, {"fp16.enabled": "auto"})

    assert edit is not None
    (splice,) = edit.splices
    after = spliced(before, edit.splices)
    assert after[: splice.start] + before[splice.start : splice.end] + after[splice.start + 6 :] == before
    assert json.loads(after) == {**table, "fp16": {**table["fp16"], "enabled": "auto"}}
