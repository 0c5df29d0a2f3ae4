"""Shell scripts with several calls: each is judged by itself, and what a call is given is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fix.edits import config
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.probe.configs import configs
from attn_doctor.probe.configs.shell_calls import files, variables
from attn_doctor.probe.configs.sources import followed_files

TRAIN_AND_PREDICT = """#!/bin/bash
set -euo pipefail
CUDA_VISIBLE_DEVICES=0 llamafactory-cli train \\
    --stage sft --do_train \\
    --model_name_or_path m \\
    --flash_attn fa2 \\
    --bf16
echo "--flash_attn sdpa"
python src/train.py --stage sft --do_predict --model_name_or_path m --flash_attn sdpa --fp16 true
"""
YAML = "stage: sft\ndo_train: true\nfinetuning_type: lora\nflash_attn: fa2\nbf16: true\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; scripts lie in one below it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "scripts").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def script(folder: Path, text: str) -> Path:
    """A script of these lines."""
    file = folder / "scripts" / "run.sh"
    file.write_text(text)
    return file


def facts(*named: Path) -> FactSet:
    return FactSet(configs.probe(named))


def test_each_call_is_judged_by_itself(here: Path) -> None:
    """A predict call behind a train call hides nothing of it."""
    file = script(here, TRAIN_AND_PREDICT)
    seen = facts(file)

    assert seen.subjects("config") == (f"{file}:3", f"{file}:9")
    assert seen.value("listed.config") == 2
    assert seen.value(f"config.{file}:3.attention") == "fa2"
    assert seen.value(f"config.{file}:3.trains") is True
    assert seen.value(f"config.{file}:3.half_precision") == "bf16"
    assert seen.value(f"config.{file}:3.attention_place") == f"{file}:6"
    assert seen.value(f"config.{file}:9.attention") == "sdpa"
    assert seen.value(f"config.{file}:9.trains") is False
    assert seen.value(f"config.{file}:9.half_precision") == "fp16"


def test_each_call_is_mended_by_itself(here: Path) -> None:
    """The settings of one call are another's matter."""
    content = TRAIN_AND_PREDICT.encode()
    one = config.planned("run.sh", content, {}, {3: {"flash_attn": "auto"}})
    both = config.planned("run.sh", content, {}, {9: {"fp16": "false"}, 3: {"flash_attn": "auto"}})

    assert one is not None
    assert spliced(content, one.splices).decode() == TRAIN_AND_PREDICT.replace("--flash_attn fa2", "--flash_attn auto")
    assert both is not None
    assert spliced(content, both.splices).decode() == TRAIN_AND_PREDICT.replace(
        "--flash_attn fa2", "--flash_attn auto"
    ).replace("--fp16 true", "--fp16 false")


@pytest.mark.parametrize(
    "text",
    [
        "llamafactory-cli train t.yaml\n",
        "FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train t.yaml\n",
        'CONFIG=t.yaml\nexport OTHER=1\nllamafactory-cli train "$CONFIG"\n',
        "CONFIG='t.yaml'; llamafactory-cli train ${CONFIG} 2>&1 | tee log.txt\n",
        "cd .. && cd work && true\nif [ -f x ]; then\n  llamafactory-cli train \\\n    t.yaml\nfi\n",
        "run() {\n  llamafactory-cli train t.yaml\n}\nrun\n",
        "cat > o.yaml <<EOF\nllamafactory-cli train no.yaml --flash_attn x\nEOF\nllamafactory-cli train t.yaml\n",
        "accelerate launch --config_file acc.yaml src/train.py t.yaml\n",
        "torchrun --nproc_per_node 8 src/train.py t.yaml || exit 1\n",
        "python -m llamafactory.cli train t.yaml\n",
        "srun llamafactory-cli train t.yaml &\nwait\n",
    ],
)
@pytest.mark.parametrize("beside", [True, False], ids=["beside the script", "in the current folder"])
def test_a_file_that_a_call_is_given(here: Path, text: str, beside: bool) -> None:
    """It is followed, wherever it was found; the places are its own."""
    file = script(here, text)
    folder = file.parent if beside and not text.startswith("cd ") else here / "work"
    (folder / "t.yaml").write_text(YAML)
    seen = facts(file)

    (subject,) = [one for one in seen.subjects("config") if one.endswith("t.yaml")]
    assert os.path.realpath(subject) == str(folder / "t.yaml")
    assert seen.value(f"config.{subject}.attention") == "fa2"
    assert seen.value(f"config.{subject}.attention_place") == f"{subject}:4"
    assert f"named in {file}:" in seen.fact(f"config.{subject}.framework").how
    assert os.path.realpath(followed_files((file,))[1]) == str(folder / "t.yaml") or "acc.yaml" in text


def test_what_a_call_says_beside_its_file(here: Path) -> None:
    """Arguments go before the file; the rest is the file's."""
    file = script(here, "llamafactory-cli train t.yaml flash_attn=sdpa\n")
    (here / "work" / "t.yaml").write_text(YAML)
    seen = facts(file)

    assert seen.value(f"config.{file}.attention") == "sdpa"
    assert seen.value(f"config.{file}.half_precision") == "bf16"
    assert seen.subjects("config") == (str(file),)  # no run gets the file as it stands

    seen = facts(script(here, f"{file.read_text()}llamafactory-cli train t.yaml\n"))
    assert seen.value("config.t.yaml.attention") == "fa2"


def test_a_call_that_does_not_train(here: Path) -> None:
    """Merging and exporting a model is no training in full precision."""
    text = "llamafactory-cli export --model_name_or_path m --export_dir o\n"
    file = script(here, f"{text}llamafactory-cli train --stage sft --bf16\n")
    seen = facts(file)

    assert seen.value(f"config.{file}:1.trains") is False
    assert seen.value(f"config.{file}:2.trains") is True


def test_launchers_files(here: Path) -> None:
    """accelerate's file and DeepSpeed's, beside the trainer's."""
    text = "accelerate launch --config_file=acc.yaml train.py --deepspeed ds.json\n"
    file = script(here, text)
    (here / "work" / "acc.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\n"
    )
    (here / "scripts" / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "fp16": {"enabled": true}}')
    seen = facts(file)

    assert seen.value("config.acc.yaml.half_precision") == "bf16"
    assert seen.value(f"config.{here / 'scripts' / 'ds.json'}.half_precision") == "fp16"
    assert seen.value(f"config.{here / 'scripts' / 'ds.json'}.precision_conflicts")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llamafactory-cli train gone.yaml\n", "names gone.yaml, which is neither in the current folder nor beside"),
        ("llamafactory-cli train $1\n", "names $1, which only the shell knows"),
        ("for c in a.yaml b.yaml; do llamafactory-cli train $c; done\n", "names $c, which only the shell knows"),
        ("C=a.yaml\nC=b.yaml\nllamafactory-cli train $C\n", "names $C, which only the shell knows"),
        ("llamafactory-cli train bad.yaml\n", "it is no configuration that attn-doctor knows"),
    ],
)
def test_what_cannot_be_followed_is_said(here: Path, text: str, words: str) -> None:
    """Alone it is what to name; beside a call that is known it is an open question."""
    (here / "work" / "bad.yaml").write_text("some: thing\nother: 1\n")
    file = script(here, text)
    with pytest.raises(BadInput, match="Name that file itself") as refused:
        facts(file)
    assert words in refused.value.what

    seen = facts(script(here, f"{text}llamafactory-cli train --stage sft --flash_attn fa2\n"))
    states = [seen.fact(f"config.{one}.framework").state for one in seen.subjects("config")]
    assert any(isinstance(state, Unknown) and words in state.reason for state in states)
    assert seen.value(f"config.{file}.attention") == "fa2"


def test_two_files_of_one_name(here: Path) -> None:
    """Which one the script means depends on where it is run: neither is guessed."""
    for folder in ("work", "scripts"):
        (here / folder / "t.yaml").write_text(YAML)
    with pytest.raises(BadInput) as refused:
        facts(script(here, "llamafactory-cli train t.yaml\n"))

    assert "there are several" in refused.value.what


def test_a_value_that_only_the_shell_knows(here: Path) -> None:
    """It is unknown, and nothing is made of the variable's name; one that is set once is its value."""
    file = script(here, 'llamafactory-cli train --stage sft --flash_attn "$WAY" --bf16 $HALF\n')
    seen = facts(file)
    for attribute in ("attention", "effective_attention", "half_precision"):
        state = seen.fact(f"config.{file}.{attribute}").state
        assert isinstance(state, Unknown)
        assert "only the shell knows it" in state.reason

    seen = facts(script(here, f"WAY=fa2\n{file.read_text()}"))
    assert seen.value(f"config.{file}.attention") == "fa2"


def test_a_file_that_is_named_as_well(here: Path) -> None:
    """Nothing is judged twice."""
    (here / "work" / "t.yaml").write_text(YAML)
    file = script(here, "llamafactory-cli train t.yaml\n")

    assert facts(file, Path("t.yaml")).subjects("config") == ("t.yaml",)


def test_variables() -> None:
    """Set once, to plain text."""
    assert variables("A=1\nexport B='x y'\nC=$A\nD=1\nD=2\nfor E in 1 2; do :; done\nF=1 llamafactory-cli x\n") == {
        "A": "1",
        "B": "x y",
        "F": "1",
    }
    assert [one.path for one in files("axolotl train cfg.yml\naccelerate launch -m axolotl.cli.train b.yaml\n")] == [
        "cfg.yml",
        "b.yaml",
    ]


@pytest.mark.parametrize(
    ("text", "attention", "half"),
    [
        ('ARGS="--flash_attn fa2 --bf16"\nllamafactory-cli train --stage sft $ARGS\n', "fa2", "bf16"),
        ('llamafactory-cli train --stage sft "${ARGS[@]}"\n', None, None),
        ('llamafactory-cli train --stage sft --flash_attn fa2 "$@"\n', "fa2", None),
        ("llamafactory-cli train --stage sft `cat args`\n", None, None),
        ("llamafactory-cli train --stage sft --bf16 true $EXTRA\n", None, "bf16"),
    ],
)
def test_arguments_that_a_variable_makes(here: Path, text: str, attention: str | None, half: str | None) -> None:
    """What is not written out is not known, never absent; a variable that is set once is read."""
    file = script(here, text)
    seen = facts(file)

    for attribute, wanted in (("attention", attention), ("half_precision", half)):
        fact = seen.fact(f"config.{file}.{attribute}")
        assert seen.value(fact.name) == wanted
        assert wanted is not None or isinstance(fact.state, Unknown)


@pytest.mark.parametrize(
    "text",
    [
        'bash -c "llamafactory-cli train {}"\n',
        "srun --ntasks 1 bash -lc 'cd /tmp; llamafactory-cli train {}'\n",
        "docker run --rm image /bin/sh -c 'source env.sh && exec llamafactory-cli train {}'\n",
        'sbatch --wrap="llamafactory-cli train {}"\n',
        "sbatch --wrap 'torchrun $ARGS src/train.py {}'\n",
        'eval "llamafactory-cli train {}"\n',
        "bash -c \"srun bash -c 'llamafactory-cli train {}'\"\n",
        "bash -euxo pipefail -c 'llamafactory-cli train {}'\n",
    ],
)
def test_a_script_that_a_shell_is_given_as_a_word(here: Path, text: str) -> None:
    """It is a script of its own, and what its calls are given is followed."""
    given = here / "work" / "t.yaml"
    given.write_text(YAML)
    file = script(here, text.format(given))
    seen = facts(file)

    assert seen.subjects("config") == (str(given),)
    assert seen.value(f"config.{given}.attention") == "fa2"
    assert followed_files([file]) == (file, given)


@pytest.mark.parametrize(
    "text",
    [
        'bash -c "llamafactory-cli train --stage sft --do_train --model_name_or_path m --flash_attn fa2 --bf16"\n',
        "sbatch --wrap='llamafactory-cli train --stage sft --do_train --flash_attn fa2 --bf16'\n",
        "srun bash -lc 'export A=1; llamafactory-cli train --stage sft --flash_attn=fa2 --bf16 true'\n",
    ],
)
def test_a_call_in_such_a_script_is_mended_in_its_place(here: Path, text: str) -> None:
    """Nothing but the value changes, inside the quotes."""
    content = text.encode()
    planned = config.planned("run.sh", content, {"flash_attn": "sdpa"})

    assert planned is not None
    assert spliced(content, planned.splices) == content.replace(b"fa2", b"sdpa")
    assert facts(script(here, text)).value(f"config.{here}/scripts/run.sh.attention") == "fa2"


def test_what_is_no_script_is_none(here: Path) -> None:
    """Options that end in c are many, and text is text."""
    for text in ("tar -xzc 'llamafactory-cli train t.yaml'\n", "echo bash -c 'llamafactory-cli train t.yaml'\n"):
        with pytest.raises(BadInput, match="no configuration"):
            facts(script(here, text))
