"""Every command that a recipe can print, resolved against the package registry as pip and uv are configured here.

    python bench/printed_commands.py                 resolve them all: minutes, and metadata alone
    python bench/printed_commands.py --list          print them
    python bench/printed_commands.py --only xformers resolve those of recipes whose id holds this

The commands are those of the recipes' own cases, for pip and for uv. An install is asked with --dry-run, never made.
What cannot be resolved from here (torch's own index where it is not reachable, files, words for the reader to fill in)
is said as that: `could not look`. What is built from source is looked up and not built.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attn_doctor.diagnose.cases import case_facts
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin, Value
from attn_doctor.model.findings import Finding, Remedy
from attn_doctor.recipes.recipe import Case, Recipe
from attn_doctor.recipes.shelf import bundled

#: Assumed in every case beside what the case says.
PYTHON = "/env/bin/python"
#: Words for the reader to fill in, in any spelling, where a fact has the value or a text has to say how it is found.
PLACEHOLDERS = re.compile(
    r"(?<![\w$])(?:VERSION|RELEASE|INDEX|PACKAGE|BUILD|MAJOR|MINOR|TRITON|WHEEL_URL|WHEEL"
    r"|(?:TORCH|CUDA|PYTHON|PACKAGE|DRIVER|GPU|ARCH|WHEEL|FLASH(?:_ATTN)?)_(?:VERSION|NAME|URL|HERE|RELEASE))"
    r"(?![\w.]*[=\w.])"
    r"|[=/@+~-](?:[A-Z]+_)*VERSION\b|(?<![\w$])(?:YOUR|MY|THE|SOME)_[A-Z]\w*"
    r"|(?<![#<\w])<(?:[a-z][a-z_ -]*[_ -])?(?:version|release|name|path|number|url|package|cuda|torch|gpu|python)>"
    r"|(?<![\w.])[XxMN]\.[YyxXN](?:\.[ZzxX])?(?![\w%])|(?<=cuda-)[XY]\b|(?<=[a-z]-)X-Y\b"
    r"|==(?:X+|x|\?|\u2026|\.\.\.)(?![\w=])"
    r"|\b(?:cu|cp|sm_?|gfx|py|python3?\.?)(?:X+Y*Z*|x{2,}|MAJOR|N{2,})\b|\bcu(?:1?x{1,3}|1?\?+)(?!\w)"
    r"|(?<![\w$])PATH_TO_[A-Z]\w*|\$\{?(?:[A-Z]+_)?(?:VERSION|RELEASE)\b"
    r"|\brocm[XxNM]\b|\bmanylinux_\d{1,2}_(?:X+|N+)\b|[=~<>]=\d{1,2}\.[XxNY](?!\w)|\bcu1X+\b|\bcuda-1[Xx]\b"
    r"|(?<![\w.])/?path/to(?:/|\b)|\S+-cuMAJOR\b|\bcuda-\?|\.example\b"
)
#: In a command, beside these: what its reader alone knows.
OF_THE_READER = re.compile(
    r"(?<![\w$./{-])(?:\./)?(?:FILE|FOLDER|MODEL|MODEL-FOLDER|NAME|HOST|PORT|ADDRESS|USER|PATH|DIR|REPO|IMAGE|ID|PID)(?![\w=])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One command as somebody sees it, and what it stands under."""

    recipe: Recipe
    finding: Finding
    remedy: Remedy
    command: str
    facts: FactSet
    from_log: bool

    @property
    def words(self) -> list[str]:
        """As a shell takes them apart; what it asks a command for in the middle of a word is written $(asked)."""
        return shlex.split(_ASKED.sub(r'"\g<before>$(asked)\g<behind>"', self.command.partition("  # ")[0]))

    @property
    def installs(self) -> tuple[str, ...]:
        """The requirements that it hands to an installer; none where it is no installation."""
        words = self.words
        if "install" not in words or not {"pip", "uv"} & {Path(word).name for word in words}:
            return ()
        found, skip = [], False
        for word in words[words.index("install") + 1 :]:
            if word in ("2>&1", "|", "&&"):
                break
            if skip or word.startswith("-"):
                skip = not skip and word in _TAKES_A_VALUE
                continue
            found.append(word)
        return tuple(found)


#: A word with the answer of another command, whose own quotes stand in those of the word.
_ASKED = re.compile(r'"(?P<before>[^"$]{0,80})\$\(.{1,400}?\)(?P<behind>[^"()\s]{0,40})"(?=\s|$)')
_TAKES_A_VALUE = (
    "--index-url", "--extra-index-url", "--python", "--torch-backend", "--reinstall-package", "--find-links",
    "--no-binary", "--only-binary", "-c", "-f",
)  # fmt: skip


def printed(recipes: tuple[Recipe, ...] = (), *, share: bool = False) -> Iterator[Printed]:
    """What the recipes' own cases print, once for a target with pip and once for one without; a `share` is one of the
    two for every other case of facts and every fifth log, chosen by what the case says."""
    for recipe in recipes or bundled():
        for case in recipe.cases:
            told = case_facts(case) if case.log is None else FactSet()
            for has_pip in _share(case) if share else (True, False):
                facts = _facts(case, told, has_pip=has_pip)
                if case.log is None:
                    findings = judge(facts, [recipe]).findings
                else:
                    findings = explain_text(case.log, [recipe], facts).diagnosis.findings
                for finding in findings:
                    for remedy in finding.remedies:
                        for one in remedy.actions:
                            for command in one.commands if one.action.for_a_shell else ():
                                yield Printed(
                                    recipe=recipe, finding=finding, remedy=remedy, command=command,
                                    facts=facts, from_log=case.log is not None,
                                )  # fmt: skip


def _share(case: Case) -> tuple[bool, ...]:
    of = 4 if case.log is None else 10
    return {0: (True,), 1: (False,)}.get(zlib.crc32(f"{case.log} {case.facts}".encode()) % of, ())


def _facts(case: Case, told: FactSet, *, has_pip: bool) -> FactSet:
    more: dict[str, Value] = {"python.executable": PYTHON, "python.has_pip": has_pip}
    named = {str(name): value for name, value in case.facts}
    if "torch.version" in named and "package.torch.version" not in named:
        # As registries spell it; torch's own indices add the build.
        more["package.torch.version"] = str(named["torch.version"]).partition("+")[0]
    facts = [Fact(name=FactName.parse(name), state=Known(value), how="assumed here", origin=Origin.ASSUMED)
             for name, value in more.items()]  # fmt: skip
    if case.log is None:
        return derive(told.with_facts(facts))
    own = (
        Fact(name=name.of("0") if name.each else name, state=Known(value), how="the case", origin=Origin.ASSUMED)
        for name, value in case.facts
    )
    return derive(FactSet([*own, *facts]))


# --- resolving ------------------------------------------------------------------------------------------------------


_UNREACHABLE = re.compile(r"dns error|NameResolutionError|Failed to (?:resolve|establish)|Temporary failure|Proxy")


def resolve(command: str, python: Path, folder: Path) -> tuple[str, str]:
    """(resolves | does not | could not look | no installation, why)."""
    # What the reader's shell fills in is the torch that is installed there, and here there is none.
    words = [word for word in shlex.split(_ASKED.sub('"$(asked)"', command)) if "$(" not in word]
    if "install" not in words or not {"pip", "uv"} & {Path(word).name for word in words}:
        return "no installation", ""
    if PLACEHOLDERS.search(command):
        return "could not look", "it has a word for the reader to fill in"
    at = words.index("install")
    if any(word in ("--no-build-isolation", "--no-binary") for word in words):
        return _source(words, at, python, folder)
    if any(word.startswith(("./", "../")) for word in words[at:]):
        return "could not look", "a file of the reader's"
    asked = [word for word in words[at + 1 :] if word not in ("2>&1", "|", "tee", "build.log")]
    if words[at - 1] == "pip" and "uv" in {Path(word).name for word in words[:at]}:
        uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
        asked = [str(python) if word == PYTHON else word for word in asked]
        line = [uv, "pip", "install", "--dry-run", *asked]
    else:
        line = [str(python), "-m", "pip", "install", "--dry-run", "--quiet", "--only-binary", ":all:",
                "--report", str(folder / "report.json"), *asked]  # fmt: skip
    done = _run(line, folder)
    said = (done.stderr or done.stdout).strip().splitlines()
    if done.returncode == 0:
        return "resolves", " ".join(line.strip() for line in said if "WARNING" not in line)[-160:]
    named = {"--index-url", "--torch-backend", "--find-links"} & set(words)
    if named and _UNREACHABLE.search(done.stderr):
        return "could not look", "torch's own index is not reachable from here"
    return "does not", " ".join(one.strip() for one in said[-2:])[:300]


def _source(words: list[str], at: int, python: Path, folder: Path) -> tuple[str, str]:
    """What is built from source is looked up alone: its metadata would mean to run its setup.py."""
    rest = [word for word in words[at + 1 :] if word not in ("tee", "build.log", ":all:")]
    names = [word for word in rest if re.match(r"[A-Za-z0-9]", word) and "&" not in word]
    for name in dict.fromkeys(names):
        done = _run([str(python), "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--quiet", "--dest",
                     str(folder / "source"), "--no-binary", ":all:", name], folder)  # fmt: skip
        said = (done.stderr or done.stdout).strip().splitlines()
        if done.returncode and any("No matching distribution" in line for line in said):
            return "does not", said[-1][:300]
    return "resolves", "the source is there; not built"


def _run(line: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, env=environment, timeout=600, check=False)


def _patient(folder: Path, torch: str) -> Path:
    """An environment with pip and the metadata of a torch: nothing of it is ever imported."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    # A venv's own pip may be one that fetches every wheel for --dry-run, torch and its CUDA packages among them.
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--upgrade", "pip"]
    subprocess.run(pip, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    info = site / f"torch-{torch}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    (info / "RECORD").write_text("")
    (info / "INSTALLER").write_text("pip\n")
    return folder / "bin" / "python"


def main() -> int:
    """Prints a row for each command, and ends with 1 where one does not resolve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the commands, and resolve none")
    parser.add_argument("--only", default="", help="recipes whose id holds this")
    chosen = parser.parse_args()
    rows: dict[str, set[str]] = {}
    torches: dict[str, str] = {}
    for one in printed():
        if chosen.only in one.recipe.id:
            rows.setdefault(one.command, set()).add(one.recipe.id)
            held = one.facts.text("package.torch.version")
            if held and f"torch=={held}" in one.installs:
                torches[one.command] = held
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="printed-commands-") as scratch:
        patients: dict[str, Path] = {}
        for number, (command, recipes) in enumerate(sorted(rows.items())):
            if chosen.list:
                print(f"{', '.join(sorted(recipes))}\n    {command}")
                continue
            torch = torches.get(command, "2.11.0")
            if torch not in patients:
                patients[torch] = _patient(Path(scratch) / f"torch-{torch}", torch)
            folder = Path(scratch) / str(number)
            folder.mkdir()
            outcome, why = resolve(command, patients[torch], folder)
            shutil.rmtree(folder, ignore_errors=True)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome != "no installation":
                print(f"{outcome:15} {', '.join(sorted(recipes))}\n    {command}\n    {why}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or f"{len(rows)} commands")
    return 1 if counts.get("does not") else 0


if __name__ == "__main__":
    raise SystemExit(main())
