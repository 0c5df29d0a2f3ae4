"""The commands of README and docs do what the pages say: each is run, or read by the real parser where it needs what
the ordinary suite has not (documented.NOT_HERE says what, and what runs it)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import documented, in_process
from tests.conftest import CHECKOUT, Doctor, clean_environment, needs_torch
from tests.documented import NOT_HERE, PAGES, Typed

TYPED = documented.typed()
OURS = [one for one in TYPED if one.words[0] == "attn-doctor"]
HERE = [one for one in OURS if not one.needs]
WITH_TORCH = [one for one in OURS if one.needs == "torch"]
PLANS = [one for one in OURS if one.needs == "registry" and one.words[1] == "plan"]
#: A shell would look for files of that name; zsh then runs nothing.
_GLOB = re.compile(r"(?<!['\w])[\w./=-]*[*?\[][^' ]*(?= |$)")


def named(one: Typed) -> str:
    return f"{one.page}:{one.line}"


def run(one: Typed, folder: Path, places: dict[str, str], *, limit: float = 120.0) -> None:
    """As typed, in the sandbox, whose environment is the active one."""
    environment = clean_environment(VIRTUAL_ENV=str(folder / "train"), HOME=str(folder), COLUMNS="100")
    words = tuple(documented.placed(one.words[1:], places))
    status, out, err = in_process.run(
        words, cwd=folder, environment=environment, stdin=b"", limit=limit, as_module=False
    )

    assert status in (0, 1, 3), f"{one.text}\n{out.decode()[-2000:]}\n{err.decode()[-2000:]}"
    assert b"Traceback" not in err
    assert out or status == 3 or {"--output", "--prometheus", "--record"} & {*words}


@pytest.fixture(scope="module")
def places(doctor: Doctor, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with every file that the commands name, and an environment without torch."""
    folder = tmp_path_factory.mktemp("documented")
    return folder, documented.sandbox(folder, doctor, torch=False)


@pytest.fixture(scope="module")
def with_torch(doctor: Doctor, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The same with the torch of the tests."""
    folder = tmp_path_factory.mktemp("with-torch")
    return folder, documented.sandbox(folder, doctor, torch=True)


@pytest.mark.parametrize("one", HERE, ids=named)
def test_a_command_runs(one: Typed, places: tuple[Path, dict[str, str]]) -> None:
    """Status 0, 1 or 3 (there is no torch to examine), a report, no traceback."""
    run(one, *places)


@needs_torch
@pytest.mark.heavy
@pytest.mark.parametrize("one", [*HERE, *WITH_TORCH], ids=named)
def test_a_command_runs_with_torch(one: Typed, with_torch: tuple[Path, dict[str, str]]) -> None:
    """The same where there is a torch: models are traced, kernels tried."""
    if "--replay" in one.words:  # the line before it on its page
        run(next(other for other in OURS if "--record" in other.words), *with_torch)
    run(one, *with_torch, limit=600.0)


@pytest.mark.heavy
@pytest.mark.registry
@pytest.mark.parametrize("one", PLANS, ids=named)
def test_a_plan_is_made(one: Typed, places: tuple[Path, dict[str, str]]) -> None:
    """With the package index that is configured."""
    run(one, *places, limit=300.0)


@pytest.mark.parametrize("page", [str(page.relative_to(CHECKOUT)) for page in PAGES])
def test_a_command_is_understood(page: str) -> None:
    """Those that are not run here, and those within a sentence, are read by the parser; no shell changes them."""
    in_blocks = [one.text for one in OURS if one.page == page]
    in_sentences = [text for text in documented.spoken()[page] if not re.search(r"…|\.\.\.", text)]
    for text in (*in_blocks, *in_sentences):
        documented.parse(Typed(page, 0, text, "").words)
        assert not _GLOB.search(text.partition(" #")[0]), f"a shell would expand: {text}"


def test_both_readmes_have_the_same_commands() -> None:
    """And the same pages and pictures, whatever their language."""

    def of(name: str) -> tuple[list[str], set[str]]:
        text = (CHECKOUT / name).read_text()
        written = [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("$ ")]
        return written, {*re.findall(r"docs/[\w./-]+", text)} - {"docs/glossary.md", "docs/glossary.zh.md"}

    assert of("README.zh.md") == of("README.md")


def test_exceptions_are_needed() -> None:
    """Each row of the exceptions is some page's, with what it needs and what runs it."""
    for part, needs, told in NOT_HERE:
        assert needs
        assert any(part in f"{one.text} " for one in OURS) or any(
            part in f"{text} " for texts in documented.spoken().values() for text in texts
        ), part
        for file in re.findall(r"(?:tests|docs|bench)/[\w/.]+", told):
            assert (CHECKOUT / file).exists(), told


@pytest.mark.parametrize("one", [one for one in TYPED if one not in OURS], ids=named)
def test_another_program_finds_what_it_is_told(one: Typed, places: tuple[Path, dict[str, str]]) -> None:
    """make: its target; sbatch: the hook that the line before it writes, the command that it wraps; our scripts: their
    options (tests/test_set_up.py runs them); pip: the extra."""
    words = one.words
    match words[0]:
        case "make":
            make = shutil.which("make")
            if make is None:
                pytest.skip("no make")
            subprocess.run([make, "-n", *words[1:]], cwd=CHECKOUT, check=True, capture_output=True)
        case "sbatch":
            hooks = [other for other in HERE if "--install" in other.words and other.page == one.page]
            for before in hooks:
                run(before, *places)
            inner = words[words.index("--wrap") + 1] if "--wrap" in words else ""
            if inner:
                documented.parse(Typed(one.page, 0, inner, "").words)
            else:
                script = next(word for word in words if word.endswith(".sh"))
                assert (places[0] / script).is_file()
        case "python3":
            source = (CHECKOUT / words[1]).read_text()
            assert all(word in source for word in words[2:])
        case ".venv/bin/pip":
            (extra,) = re.findall(r"\.\[(\w+)\]", one.text)
            assert f"\n{extra} = [" in (CHECKOUT / "pyproject.toml").read_text()
        case _:
            raise AssertionError(f"nothing tries {one.text}")
