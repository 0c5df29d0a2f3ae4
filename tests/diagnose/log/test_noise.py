"""Whatever a launcher, a container or a terminal puts around a message, it is found: tried on all recipes' texts."""

from __future__ import annotations

import functools
import json
import random
import textwrap
import zlib
from collections.abc import Callable

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Case, Recipe
from tests.diagnose.log.making import given

RECIPES = shelf.bundled()
#: Told by plain lines that follow a message: where each line is stamped, every one is a record of its own.
OF_SEVERAL_RECORDS = {"torch-pinned-by-package", "cache-grows-under-checkpointing", "fp8-e4m3-before-ada"}
FOUND = [
    (recipe, case)
    for recipe in RECIPES
    for case in recipe.cases
    if case.log is not None and case.expect in ("finds", "open")
]
STAMPED = {"vllm", "docker, named", "github", "loguru", "kubernetes", "logging", "journal", "both", "boxed"}


def each(prefix: str) -> Callable[[str], str]:
    return lambda log: "\n".join(prefix + line for line in log.split("\n"))


def interleaved(log: str) -> str:
    """Four ranks say it at the same time, each its own number of lines ahead."""
    rng = random.Random(log)
    waiting = {rank: log.split("\n") for rank in range(4)}
    lines = []
    while waiting:
        rank = rng.choice(list(waiting))
        lines.append(f"[rank{rank}]: {waiting[rank].pop(0)}")
        if not waiting[rank]:
            del waiting[rank]
    return "\n".join(lines)


def broken(width: int) -> Callable[[str], str]:
    """As a terminal or a scheduler breaks lines: in the middle of words."""
    return lambda log: "\n".join(
        "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width)) for line in log.split("\n")
    )


def boxed(log: str) -> str:
    """As rich draws it."""
    return "\n".join(f"│ {line:<100} │" for line in log.split("\n"))


def coloured(log: str) -> str:
    """Colours that begin inside words."""
    return "\n".join(f"\x1b[31m{line[:7]}\x1b[0m\x1b[1;33m{line[7:]}\x1b[0m" for line in log.split("\n"))


BAR = "  5%|▌         | 5/100 [00:01<00:19,  4.99it/s]"

NOISE: dict[str, Callable[[str], str]] = {
    "rank": each("[rank3]: "),
    "default": each("[default0]:"),
    "srun": each("12: "),
    "mpi": each("[1,7]<stderr>:"),
    "ray": each("(TrainerActor pid=4711, ip=10.0.0.7) "),
    "vllm": each("(EngineCore_DP0 pid=99) ERROR 05-01 12:00:00 [core.py:396] "),
    "docker": each("trainer-1  | "),
    "docker, named": each("my.trainer    | (RayWorkerWrapper pid=356) ERROR 08-05 22:52:01 [worker_base.py:619] "),
    "bash": each("[bash]  "),
    "github": each("build\tRun tests\t2026-11-22T10:00:00.1234567Z ##[error]"),
    "loguru": each("2026-11-22 10:00:00.123 | ERROR    | trainer.loop:main:12 - "),
    "kubernetes": each("2026-11-21T10:00:00.123456789Z stderr F "),
    "logging": each("2026-11-21 10:00:00,123 - "),
    "json-file": lambda log: "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-21T10:00:00.1Z"})
        for line in log.split("\n")
    ),
    "json": lambda log: "\n".join(
        json.dumps({"severity": "ERROR", "message": f"\x1b[31m{line}\x1b[0m"}) for line in log.split("\n")
    ),
    "journal": each("Nov 21 10:00:00 node12 train[77]: "),
    "colours": coloured,
    "crlf": lambda log: log.replace("\n", "\r\n"),
    "indented": lambda log: textwrap.indent(log, " " * 6),
    "boxed": boxed,
    "interleaved": interleaved,
    "wrapped": broken(200),
    "progress": lambda log: f"{BAR}\r{BAR}{log}",
    "both": lambda log: each("[rank3]: ")(each("[2026-11-21 10:00:00,123] ")(log)).replace("\n", "\r\n"),
    "among others": lambda log: "step 1 loss 0.3\n" * 1600 + log + "\n" + "step 2 loss 0.2\n" * 1600,
}  # fmt: skip


def hidden(noise: str, cases: list[tuple[Recipe, Case]]) -> list[tuple[str, str | None]]:
    """Which texts the recipe that they are a case of no longer finds in that dress."""
    dress = NOISE[noise]
    return [
        (recipe.id, case.log)
        for recipe, case in cases
        if case.log is not None
        and not (noise in STAMPED and recipe.id in OF_SEVERAL_RECORDS and "\n" in case.log.strip())
        and not explain_text(dress(case.log), [recipe], given(case)).diagnosis.findings
    ]


@functools.cache
def worn(text: str) -> tuple[str, str]:
    """Two of the dresses; which ones changes with nothing but the text and the names of the dresses."""
    first, second, *_ = sorted(NOISE, key=lambda noise: zlib.crc32(f"{text}\n{noise}".encode()))
    return first, second


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISE)
def test_noise_hides_nothing(noise: str) -> None:
    """The texts of all recipes are found in any dress: each text in two dresses, so that a new one is tried at once."""
    cases = [(recipe, case) for recipe, case in FOUND if case.log is not None and noise in worn(case.log)]

    assert len(cases) > 100
    assert hidden(noise, cases) == []


@pytest.mark.heavy
@pytest.mark.parametrize("noise", NOISE)
def test_noise_hides_no_text(noise: str) -> None:
    """Each text in each dress."""
    assert hidden(noise, FOUND) == []


def test_ranks_are_told_apart() -> None:
    """Interleaved ranks are put back in order, and each is named."""
    message = "RuntimeError: FlashAttention only support fp16 and bf16 data type"
    log = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{message}'
    (finding, *_) = explain_text(interleaved(log), RECIPES, FactSet()).diagnosis.findings

    assert sorted(finding.subjects) == ["rank 0", "rank 1", "rank 2", "rank 3"]
