"""`set-environment`: what activation sources, in real shells, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fix.edits import environment
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused

pytestmark = pytest.mark.process

NAME = "TORCH_CUDNN_SDPA_DEPRIORITIZED"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    folder = (tmp_path / "environment").resolve()
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    return folder


def mend(prefix: Path, **wanted: str) -> None:
    """Carries the edits out."""
    for edit in environment.planned(prefix, wanted):
        file = Path(edit.file)
        content = file.read_bytes() if file.exists() else b""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(spliced(content, edit.splices))


def told(shell: str, script: str) -> list[str]:
    """What a shell prints, started with nothing of its user's."""
    plain = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    words = {"bash": ["--norc", "--noprofile"], "tcsh": ["-f"], "csh": ["-f"], "fish": ["--no-config"]}
    line = [shell, *words.get(shell, []), "-c", script]
    return subprocess.run(line, capture_output=True, text=True, env=plain, check=True, timeout=60).stdout.split("\n")


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh"])
def test_set_by_activation_and_gone_after(prefix: Path, shell: str) -> None:
    """In every shell of the family, twice over; `deactivate` takes it away."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    mend(prefix, **{NAME: "1"})
    asks = f'echo "<${NAME}>"'
    script = f"{asks}; . {prefix}/bin/activate; {asks}; deactivate; {asks}; . {prefix}/bin/activate; {asks}"

    assert told(shell, script)[:4] == ["<>", "<1>", "<>", "<1>"]


@pytest.mark.parametrize(("shell", "file"), [("fish", "activate.fish"), ("tcsh", "activate.csh")])
def test_other_shells(prefix: Path, shell: str, file: str) -> None:
    """fish and csh have files and words of their own."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    mend(prefix, **{NAME: "1"})

    start = "set prompt = '>'; " if shell == "tcsh" else ""  # its script asks for one that only a person's shell has
    assert "1" in told(shell, f"{start}source {prefix}/bin/{file}; printenv {NAME}")


def test_conda_sources_files_of_its_own(tmp_path: Path) -> None:
    """activate.d and deactivate.d; no file of conda's is touched."""
    (tmp_path / "conda-meta").mkdir()
    prefix = tmp_path.resolve()
    mend(prefix, **{NAME: "1"})
    on, off = prefix / "etc/conda/activate.d/attn-doctor.sh", prefix / "etc/conda/deactivate.d/attn-doctor.sh"

    assert told("sh", f". {on}; echo ${NAME}; . {off}; echo [${NAME}]")[:2] == ["1", "[]"]
    assert environment.written(prefix) == {NAME: "1"}
    assert {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()} == {
        "etc/conda/activate.d/attn-doctor.sh",
        "etc/conda/deactivate.d/attn-doctor.sh",
    }


def test_a_second_variable_joins_the_first(prefix: Path) -> None:
    """One block, both in it; a variable that gets another value stands there once."""
    mend(prefix, AAA="1")
    mend(prefix, BBB="2")
    mend(prefix, AAA="3")
    text = (prefix / "bin/activate").read_text()

    assert environment.written(prefix) == {"AAA": "3", "BBB": "2"}
    assert text.count("# >>> attn-doctor >>>") == 2  # at the end, and where deactivate begins
    assert text.count("AAA") == 2
    assert told("sh", f". {prefix}/bin/activate; echo $AAA $BBB")[0] == "3 2"


def test_what_is_said_already_is_no_edit(prefix: Path) -> None:
    """The shell has to be activated anew; the plan says so."""
    mend(prefix, **{NAME: "1"})

    with pytest.raises(Refused, match="activate the environment anew"):
        environment.planned(prefix, {NAME: "1"})


def test_seen_without_a_shell(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes started in the context get the variables of activation; afterwards the environment is unchanged."""
    monkeypatch.setenv(NAME, "0")
    mend(prefix, **{NAME: "1", "OTHER": "x"})
    with environment.activated(prefix):
        seen = subprocess.run(["printenv", NAME, "OTHER"], capture_output=True, text=True, check=True).stdout

    assert seen == "1\nx\n"
    assert os.environ[NAME] == "0"
    assert "OTHER" not in os.environ


def test_a_python_that_nothing_is_sourced_for(tmp_path: Path) -> None:
    """A system's own interpreter: set the variable where the job is started."""
    with pytest.raises(Refused, match="nothing that is sourced"):
        environment.planned(tmp_path, {NAME: "1"})


def test_a_script_that_is_a_link(prefix: Path, tmp_path: Path) -> None:
    """Refused, because the target may belong to another user."""
    outside = tmp_path / "outside"
    (prefix / "bin/activate").rename(outside)
    (prefix / "bin/activate").symlink_to(outside)

    with pytest.raises(Refused, match="link"):
        environment.planned(prefix, {NAME: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (NAME, "1'; rm -rf ~; '"), (NAME, "$(id)"), (NAME, "`id`"), (NAME, "a\nb"), (NAME, "a b"), (NAME, "1\n"),
        ("A=1 B", "1"), ("A;B", "1"), ("", "1"), ("A\n", "1"), ("LD_PRELOAD", "/tmp/x.so"), ("BASH_ENV", "/tmp/x"),
    ],
)  # fmt: skip
def test_nothing_that_a_shell_reads_as_more(prefix: Path, name: str, value: str) -> None:
    """A hostile recipe cannot make an activation script run anything."""
    before = (prefix / "bin/activate").read_bytes()
    with pytest.raises(Refused, match=r"is no name of a variable|what programs load|more than a plain word"):
        environment.planned(prefix, {name: value})

    assert (prefix / "bin/activate").read_bytes() == before


@given(
    before=st.text(alphabet="ab\n# >\t'é", max_size=30),
    value=st.from_regex(r"[A-Za-z0-9_.,:/=+-]{0,8}", fullmatch=True),
)
def test_every_byte_else_stays(tmp_path_factory: pytest.TempPathFactory, before: str, value: str) -> None:
    """For any script: only our block is added, and reading it returns the written values."""
    prefix = tmp_path_factory.mktemp("prefix").resolve()
    (prefix / "bin").mkdir()
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (prefix / "bin/activate").write_bytes(before.encode())
    (edit,) = environment.planned(prefix, {NAME: value})
    after = spliced(before.encode(), edit.splices)
    (prefix / "bin/activate").write_bytes(after)

    assert after.startswith(before.encode())
    assert environment.written(prefix) == {NAME: value}
