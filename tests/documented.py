"""The commands that README and docs have people type: read from the pages, with what each needs, and a folder that
holds every file they name."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from attn_doctor.cli import with_typer
from tests.conftest import CHECKOUT, Doctor, make_environment

#: Pages that people type from. docs/recipes/ is made of the shelf, and what its cures install is held against the
#: registry by bench/printed_commands.py; testing.md tells what was run, with names of the day; commands.md is --help.
PAGES = sorted(
    page
    for page in (*CHECKOUT.glob("README*.md"), CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").rglob("*.md"))
    if page.parent.name != "recipes" and page.name not in ("testing.md", "commands.md")
)
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(attn-doctor\s[^`]+)`")

#: Which commands are not run in the ordinary suite: by the part that tells them, what they need, and what runs them.
#: All of them are read by the real parser; the first row that fits counts.
NOT_HERE = (
    ("fleet run ", "cluster", "jobs of Slurm, or ssh to nodes: tests/scenarios/test_slurm.py, tests/fleet/"),
    (" --apply ", "installs", "a new environment of gigabytes: by hand, docs/testing.md"),
    ("attn-doctor plan ", "registry", "asks the package index: run with `-m 'heavy and registry'`"),
    (" --hf ", "registry", "transformers: tests/patient/trace/test_registry.py"),
    ("attn-doctor mcp", "serves", "speaks until its input ends: tests/serving/"),
    ("attn-doctor trace ", "torch", "run with `-m heavy`"),
    ("fix --trace ", "torch", "run with `-m heavy`"),
    (" -- torchrun ", "torch", "run with `-m heavy`"),
    ("--kernels ", "torch", "run with `-m heavy`"),
    ("--explain-sdpa 'q=2x32x4096x128:bf16 mask=bool train' ", "torch", "a GPU of its own, or run with `-m heavy`"),
)


@dataclass(frozen=True)
class Typed:
    """One command in a page."""

    page: str
    line: int
    text: str
    needs: str
    """What it needs that the ordinary suite has not; empty: it is run there."""

    @property
    def words(self) -> list[str]:
        """As a shell gives them to the program, without a comment and what is behind a redirection."""
        words = shlex.split(self.text, comments=True)
        return words[: words.index(">")] if ">" in words else words


def _needs(text: str) -> str:
    spaced = shlex.join(shlex.split(text, comments=True)) + " "
    return next((need for part, need, _ in NOT_HERE if part in spaced), "")


def typed() -> list[Typed]:
    """Every command of a block of the pages, where it stands first."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for block in _BLOCK.finditer(text):
            first = text.count("\n", 0, block.start()) + 2
            for number, line in enumerate(block[1].splitlines(), first):
                if line.startswith("$ "):
                    found.append(Typed(str(page.relative_to(CHECKOUT)), number, line[2:], _needs(line[2:])))
    once = {tuple(one.words): one for one in reversed(found)}
    return [one for one in found if once[tuple(one.words)] is one]


def spoken() -> dict[str, list[str]]:
    """Every command of ours in a running text, by page, that says more than its name."""
    found = {}
    for page in PAGES:
        spans = _SPAN.findall(_FENCED.sub("", page.read_text()))
        found[str(page.relative_to(CHECKOUT))] = [" ".join(one.split()) for one in spans]
    return found


def parse(words: list[str]) -> None:
    """Reads `attn-doctor …` as a start of it does, and runs nothing; raises what the parser raises."""
    command, words = with_typer.typer.main.get_command(with_typer.build(words[1:])), words[1:]
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    assert not hasattr(command, "commands") or not words, f"no such command: {words}"
    if not hasattr(command, "commands"):
        command.make_context("attn-doctor", list(words))


_MODEL = """
import torch
import torch.nn.functional as F


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.scale = torch.nn.Linear(64, 192), torch.nn.Parameter(torch.ones(16))

    def forward(self, x):
        q, k, v = self.project(x).view(2, 8, 4, 48).transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(q * self.scale.float(), k, v)


def build():
    return Attention(), torch.randn(2, 8, 64)
"""
_LOG = "step 1\nRuntimeError: FlashAttention only support fp16 and bf16 data type\n"
_LOCK = 'version = 1\nrequires-python = ">=3.10"\n\n[[package]]\nname = "einops"\nversion = "0.8.1"\n'


def sandbox(folder: Path, doctor: Doctor, *, torch: bool) -> dict[str, str]:
    """Makes every file that the commands name; gives what stands in for the places of a site that they name."""
    environment = make_environment(folder / "train", torch=torch)
    environment.metadata("x-transformers", "1.30.1")
    for name, text in {
        "model.py": _MODEL,
        "mine.py": "def attend(q, k, v, **given):\n    raise NotImplementedError\n",
        "train.py": "print('trained')\n",
        "train.yaml": "model_name_or_path: here\nstage: sft\ndo_train: true\nflash_attn: fa2\nbf16: true\n",
        "slurm-4711.out": _LOG,
        "uv.lock": _LOCK,
        "requirements.txt": "einops==0.8.1\n",
    }.items():
        (folder / name).write_text(text)
    reports = folder / "shared" / "reports"
    reports.mkdir(parents=True)
    (folder / "shared" / "verdicts").mkdir(mode=0o755)
    (folder / "textfile").mkdir()
    looked = doctor("check", "--quick", "--json", "--exit-zero", "--python", environment.python)
    for name in ("yesterday.json", "today.json", "report.json", "shared/reports/node.json"):
        (folder / name).write_text(looked.stdout)
    merged = doctor("fleet", "merge", reports, "--json", "--output", folder / "merged.json")
    assert merged.status in (0, 1, 3), merged.stderr
    return {
        "/opt/envs/train": str(environment.folder),
        "/shared/": f"{folder}/shared/",
        "/var/lib/node_exporter/textfile": str(folder / "textfile"),
        "gpu[001-124,130]": json.loads(looked.stdout)["facts"]["node.hostname"]["value"],
        "ENV": str(environment.folder),
    }


def placed(words: list[str], places: dict[str, str]) -> list[str]:
    """The words with the sandbox's places instead of a site's."""
    found = []
    for word in words:
        for place, there in places.items():
            word = word.replace(place, there) if place != "ENV" or word == place else word
        found.append(word.rstrip("/") if word == "/shared" else word)
    return found
