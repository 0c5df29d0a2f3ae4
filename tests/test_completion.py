"""Completion offers what there is, in real shells at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from attn_doctor.cli.completion import every_command
from tests.conftest import CHECKOUT as ROOT
from tests.conftest import Doctor

#: The first column of a help text's options, and the flags in it.
_ROW = re.compile(r"^  (-(?:\S| (?! ))+)", re.MULTILINE)
_FLAG = re.compile(r"--[a-z][a-z-]*")
#: What makes a shell complete, before the script.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; PS1='> '"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit && compinit -u; PS1='> '"),
    "fish": (["fish", "--no-config", "-i"], "function fish_prompt; echo '> '; end"),
}


def test_every_option_is_offered() -> None:
    """The commands and options of the help, no more and no fewer."""
    shown = {}
    for section in (ROOT / "docs" / "commands.md").read_text().split("\n## attn-doctor ")[1:]:
        name, _, text = section.partition("\n")
        shown[name] = {flag for row in _ROW.findall(text) for flag in _FLAG.findall(row)}
    for group in ("fleet", "recipes"):
        del shown[group]

    assert {" ".join(one.words): set(one.options) for one in every_command()} == shown


@pytest.fixture(scope="module")
def script(doctor: Doctor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The script for each shell, in a file."""
    folder = tmp_path_factory.mktemp("completion")
    written = {}
    for shell in SHELLS:
        written[shell] = folder / shell
        written[shell].write_text(doctor("completion", shell).stdout)
    return written


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ch", "check"),
        ("check --gpu h100-p", "h100-pcie"),
        ("fleet run --eng", "--engine"),
        ("explain triton-bf16", "triton-bf16-becomes-i16"),
        ("check --exit-style nag", "nagios"),
        ("recipes show triton-bf16", "triton-bf16-becomes-i16"),
        ("check --kernels ", "quick full"),
        ("check --kernels --rep", "--replay"),
        ("trace --config-of-nobody", ""),
    ],
)
def test_words_after_words(script: dict[str, Path], typed: str, offered: str) -> None:
    """What bash's function answers."""
    words = f"attn-doctor {typed}".split(" ")
    ask = f'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}; _attn_doctor; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(["bash", "-c", ask, "-", script["bash"], *words], capture_output=True, text=True, timeout=30)

    assert (done.stdout.strip(), done.stderr) == (offered, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key(script: dict[str, Path], shell: str, tmp_path: Path) -> None:
    """At a terminal: a GPU's name is completed, once the script is read."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    arguments, first = SHELLS[shell]
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(HOME=str(tmp_path), TERM="dumb" if shell != "fish" else "xterm", COLUMNS="200")
        os.chdir(tmp_path)
        os.execvp(arguments[0], arguments)
    try:
        os.write(terminal, f"{first}\nsource {script[shell]}\necho rea''dy\n".encode())
        assert _until(terminal, "ready"), "the script was not read"
        os.write(terminal, b"attn-doctor check --gpu h100-p\t")
        assert _until(terminal, "h100-pcie")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def _until(terminal: int, words: str) -> bool:
    """Whether these words come within 20 seconds."""
    seen, late = "", time.monotonic() + 20
    while time.monotonic() < late:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace").replace("\r", "")
            if words in seen:
                return True
    return False
