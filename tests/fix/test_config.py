# ruff: noqa: E501 -- whole files on one line show line ends, quotes and spaces as they are
"""set-config on configurations of real shapes: byte-exact results, and what is left to people."""

from __future__ import annotations

import json

import pytest

from attn_doctor.fix.edits.config import planned
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.probe.configs.shell_words import commands

AUTO = {"flash_attn": "auto"}
DISABLED = {"flash_attn": "disabled"}

PLAIN = b"""### model
model_name_or_path: Qwen/Qwen2.5-7B

### method
stage: sft
do_train: true
flash_attn: fa2
lora_target: all   # every linear layer
"""

SCRIPT = b"""#!/bin/bash
#SBATCH --gres=gpu:8
# was: --flash_attn fa2
set -e
export NOTE="--flash_attn fa2"
echo "run with --flash_attn fa2"
llamafactory-cli train \\
    --stage sft --model_name_or_path Qwen/Qwen2.5-7B \\
    --flash_attn fa2 \\
    --output_dir "out/flash_attn fa2"
cat > note.txt <<END
llamafactory-cli train --flash_attn fa2
END
llamafactory-cli train predict.yaml flash_attn=fa2 # flash_attn=fa2
"""

SAVED = b"""top.model_name: Qwen2.5-7B
top.booster: flashattn2
top.finetuning_type: lora
train.compute_type: fp32
train.extra_args: '{"flash_attn": "flashattn2"}'
"""

CASES = {
    "plain": ("a.yaml", PLAIN, AUTO, PLAIN.replace(b"flash_attn: fa2", b"flash_attn: auto")),
    "CRLF, double quotes": (
        "a.yaml",
        b'stage: sft\r\nflash_attn: "fa2"  # fast\r\nbf16: false\r\n',
        AUTO,
        b'stage: sft\r\nflash_attn: "auto"  # fast\r\nbf16: false\r\n',
    ),
    "single quotes, no newline at the end": (
        "a.yaml",
        b"stage: sft\nflash_attn: 'fa2'",
        AUTO,
        b"stage: sft\nflash_attn: 'auto'",
    ),
    "spaces around it": (
        "a.yaml",
        b"stage: sft\nflash_attn   :    fa2   # x\n",
        AUTO,
        b"stage: sft\nflash_attn   :    auto   # x\n",
    ),
    "decoys in a comment, a value, a nested key and a longer name": (
        "a.yaml",
        b"# flash_attn: fa2\nnote: 'flash_attn: fa2'\nother:\n  flash_attn: fa2\nmy_flash_attn: fa2\nflash_attn: fa2\nx: fa2\n",
        AUTO,
        b"# flash_attn: fa2\nnote: 'flash_attn: fa2'\nother:\n  flash_attn: fa2\nmy_flash_attn: fa2\nflash_attn: auto\nx: fa2\n",
    ),
    "twice: the last one counts": (
        "a.yaml",
        b"flash_attn: fa2\nstage: sft\nflash_attn: fa2\n",
        AUTO,
        b"flash_attn: fa2\nstage: sft\nflash_attn: auto\n",
    ),
    "a byte order mark and letters beyond ASCII": (
        "a.yaml",
        b"\xef\xbb\xbf# caf\xc3\xa9 \xe4\xbd\xa0\nflash_attn: fa2\n",
        AUTO,
        b"\xef\xbb\xbf# caf\xc3\xa9 \xe4\xbd\xa0\nflash_attn: auto\n",
    ),
    "empty value": ("a.yaml", b"flash_attn:\nstage: sft\n", DISABLED, b"flash_attn: disabled\nstage: sft\n"),
    "absent": ("a.yaml", b"stage: sft\nx: 1\n", DISABLED, b"stage: sft\nx: 1\nflash_attn: disabled\n"),
    "absent, CRLF, no newline at the end": (
        "a.yaml",
        b"stage: sft\r\nx: 1",
        DISABLED,
        b"stage: sft\r\nx: 1\r\nflash_attn: disabled",
    ),
    "absent, in braces": ("a.yaml", b"{stage: sft, x: 1}\n", DISABLED, b"{stage: sft, x: 1, flash_attn: disabled}\n"),
    "not text: no quotes": ("a.yaml", b"bf16: 'false'\nfp16: off\n", {"bf16": "true"}, b"bf16: true\nfp16: off\n"),
    "surprises of YAML 1.1 stay as written": (
        "a.yaml",
        b"flash_attn: fa2\nversion: 1.10\nupcast: off\nat: 12:30:45\nmode: 010\n",
        AUTO,
        b"flash_attn: auto\nversion: 1.10\nupcast: off\nat: 12:30:45\nmode: 010\n",
    ),
    "JSON": (
        "a.json",
        b'{\n    "stage": "sft",\n    "note": "\\"flash_attn\\": \\"fa2\\"",\n    "flash_attn" : "fa2",\n    "x": {"flash_attn": "fa2"}\n}',
        AUTO,
        b'{\n    "stage": "sft",\n    "note": "\\"flash_attn\\": \\"fa2\\"",\n    "flash_attn" : "auto",\n    "x": {"flash_attn": "fa2"}\n}',
    ),
    "JSON, absent": (
        "a.json",
        b'{\n  "stage": "sft",\n  "x": 1\n}\n',
        DISABLED,
        b'{\n  "stage": "sft",\n  "x": 1,\n  "flash_attn": "disabled"\n}\n',
    ),
    "JSON, true": ("a.json", b'{"stage":"sft","bf16":false}', {"bf16": "true"}, b'{"stage":"sft","bf16":true}'),
    "a script with both spellings": (
        "run.sh",
        SCRIPT,
        AUTO,
        SCRIPT.replace(b"    --flash_attn fa2 \\\n", b"    --flash_attn auto \\\n").replace(
            b"predict.yaml flash_attn=fa2", b"predict.yaml flash_attn=auto"
        ),
    ),
    "a script, quoted, with =": (
        "run.sh",
        b"python src/train.py --flash_attn=\"fa2\" --stage 'sft'\r\n",
        AUTO,
        b"python src/train.py --flash_attn=\"auto\" --stage 'sft'\r\n",
    ),
    "a script, absent": (
        "run.sh",
        b"llamafactory-cli train --model_name_or_path google/gemma-2-9b \\\n  --stage sft && echo done\n",
        DISABLED,
        b"llamafactory-cli train --model_name_or_path google/gemma-2-9b \\\n  --stage sft --flash_attn disabled && echo done\n",
    ),
    "saved web-UI arguments": ("a.yaml", SAVED, AUTO, SAVED.replace(b"top.booster: flashattn2", b"top.booster: auto")),
    "saved web-UI precision": (
        "a.yaml",
        SAVED,
        {"bf16": "true"},
        SAVED.replace(b"compute_type: fp32", b"compute_type: bf16"),
    ),
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_only_the_value_changes(case: str) -> None:
    """Comments, order, quotes, line ends, a missing last newline and every decoy stay, byte for byte."""
    name, before, settings, after = CASES[case]
    edit = planned(name, before, settings)

    assert edit is not None
    assert spliced(before, edit.splices) == after


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_second_time_there_is_nothing_to_do(case: str) -> None:
    """What has the value already is no edit."""
    name, _, settings, after = CASES[case]

    assert planned(name, after, settings) is None


def test_a_key_that_stands_twice_is_told() -> None:
    """Somebody will wonder which of them counts."""
    edit = planned("a.yaml", b"flash_attn: fa2\nx: 1\nflash_attn: fa2\n", AUTO)

    assert edit is not None
    assert "lines 1, 3" in edit.warnings[0]


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.yaml", b"x: &way fa2\nflash_attn: *way\n", AUTO),
        ("a.yaml", b"flash_attn: &way fa2\nx: *way\n", AUTO),
        ("a.yaml", b"flash_attn: [fa2]\n", AUTO),
        ("a.yaml", b"flash_attn: |\n  fa2\n", AUTO),
        ("a.yaml", b"a: 1\n---\nb: 2\n", DISABLED),
        ("a.yaml", b"a: 1\n...\n", DISABLED),
        ("a.yaml", b"a: [1\n", AUTO),
        ("a.yaml", b"\xff\xfe", AUTO),
        ("a.json", b'{"flash_attn": {"a": 1}}', AUTO),
        ("a.json", b'{"flash_attn": "fa2"', AUTO),
        ("a.json", b"[" * 100000, AUTO),
        ("run.sh", b"llamafactory-cli train --flash_attn $WAY\n", AUTO),
        ("run.sh", b"llamafactory-cli train --flash_attn=`way`\n", AUTO),
        ("run.sh", b"llamafactory-cli train --flash_attn f'a'2\n", AUTO),
        ("run.sh", b"python other.py --flash_attn fa2\n", AUTO),
        ("run.sh", b"llamafactory-cli train --flash_attn fa2\n", {"flash_attn": "x; rm -rf /"}),
        ("run.sh", b"llamafactory-cli train --flash_attn fa2\n", {"flash_attn": "$(x)"}),
        ("a.yaml", b"flash_attn: fa2\n", {"flash_attn": "auto\nevil: 1"}),
        ("a.yaml", b"flash_attn: fa2\n", {"flash_attn": "auto # x"}),
        ("a.yaml", SAVED, DISABLED),
    ],
)
def test_what_a_program_should_not_do_is_left(name: str, content: bytes, settings: dict[str, str]) -> None:
    """Shared values, variables, other forms, broken files and hostile values are refused with a reason."""
    with pytest.raises(Refused) as refused:
        planned(name, content, settings)

    assert str(refused.value)


def test_words_know_their_places() -> None:
    """Each character of a word is where it says it is."""
    script = SCRIPT.decode()

    for word in (word for command in commands(script) for word in command):
        assert [script[place] for place in word.places] == list(word.text)


def test_the_edit_is_what_parsers_read(tmp_path: object) -> None:
    """The standard JSON reader agrees."""
    name, before, settings, _ = CASES["JSON"]
    edit = planned(name, before, settings)

    assert edit is not None
    assert json.loads(spliced(before, edit.splices)) == {**json.loads(before), "flash_attn": "auto"}
