"""`attn-doctor explain` and `check -- COMMAND`, end to end, with texts that libraries really raise where a CPU can."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attn_doctor.formats import report_v1
from tests.conftest import CHECKOUT, Doctor, clean_environment, command, needs_torch, run_here
from tests.warm import nursery

AMPERE = "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"


def explain(doctor: Doctor, text: str, *options: object, tmp_path: Path) -> dict[str, Any]:
    """The report on a text, held against the schema."""
    file = tmp_path / "a.log"
    file.write_text(text)
    run = doctor("explain", "--json", file, *options)
    assert run.status in (0, 1), run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    jsonschema.validate(report, json.loads(report_v1.json_schema()))
    assert report["summary"]["exit_status"] == run.status
    return report


def causes(report: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in report["findings"]]


def test_one_text_with_opposite_causes(doctor: Doctor, tmp_path: Path) -> None:
    """The GPU decides; without it both are offered, with the question."""
    both = explain(doctor, AMPERE, tmp_path=tmp_path)

    assert {"gpu-before-ampere", "flash-attn-too-old-for-gpu"} <= set(causes(both))
    assert any("compute_capability" in fact["fact"] for one in both["open_questions"] for fact in one["undecided"])
    assert causes(explain(doctor, AMPERE, "--gpu", "t4", tmp_path=tmp_path))[0] == "gpu-before-ampere"
    blackwell = causes(explain(doctor, AMPERE, "--assume", "gpu.name=2x RTX 5090", tmp_path=tmp_path))
    assert blackwell[0] == "flash-attn-too-old-for-gpu"
    assert "gpu-before-ampere" not in blackwell


def test_messages_and_their_causes_are_counted_apart(doctor: Doctor, tmp_path: Path) -> None:
    """Two messages, one of them with two possible causes, are not three errors."""
    (tmp_path / "a.log").write_text(AMPERE + "\nRuntimeError: No available kernel. Aborting execution.\n")
    said = doctor("explain", tmp_path / "a.log").stdout

    assert "2 messages, 3 possible causes; of one message the most probable first." in said
    assert "--gpu t4" in said


def test_by_the_facts_of_another_node(doctor: Doctor, tmp_path: Path) -> None:
    """`--facts` takes a report of the node that wrote the log."""
    node = explain(doctor, "", "--gpu", "t4", tmp_path=tmp_path)
    file = tmp_path / "node.json"
    file.write_text(json.dumps(node))

    assert causes(explain(doctor, AMPERE, "--facts", file, tmp_path=tmp_path))[0] == "gpu-before-ampere"


def test_what_facts_rule_out_is_not_passed_over(doctor: Doctor, tmp_path: Path) -> None:
    """A known text on a machine where it cannot mean that: said, with the recipes, and exit status 0."""
    file = tmp_path / "a.log"
    file.write_text(AMPERE)
    run = doctor("explain", file, "--assume", "gpu.compute_capability=9.0")

    assert run.status == 0
    assert "line 1 has the words of" in " ".join(run.stdout.split())
    assert f"not known here: {file}:1: {AMPERE.strip()}" in " ".join(run.stdout.split())
    report = explain(doctor, AMPERE, "--assume", "gpu.compute_capability=9.0", tmp_path=tmp_path)
    assert [one["family"] for one in report["findings"]] == [True]  # what remains to be said of the message
    assert report["logs"][0]["unknown_line"] == 1
    assert "gpu-before-ampere" in report["logs"][0]["note"]


def test_what_is_said(doctor: Doctor, tmp_path: Path) -> None:
    """For a person: the cause, the log's own line with its number, a cure, and how sure."""
    file = tmp_path / "train.log"
    file.write_text(f"step 1\n{AMPERE}")
    run = doctor("explain", file, "--gpu", "t4")

    assert run.status == 1
    assert f"[error] gpu-before-ampere  {file}:2" in run.stdout
    assert "line 2" in run.stdout
    assert "FlashAttention only supports Ampere GPUs or newer." in run.stdout
    assert "  fix " in run.stdout
    assert "?" not in run.stdout.replace("?,", "")


def test_for_an_issue(doctor: Doctor, tmp_path: Path) -> None:
    """Markdown quotes the log, and says nothing of a machine that nobody looked at."""
    file = tmp_path / "train.log"
    file.write_text(AMPERE)
    run = doctor("explain", "--format", "markdown", "--gpu", "t4", file)

    assert "> RuntimeError: FlashAttention only supports Ampere" in run.stdout
    assert "no machine was looked at" in run.stdout
    assert "unknown system" not in run.stdout


def test_nothing_known(doctor: Doctor, tmp_path: Path) -> None:
    """What is not ours gets no guess, exit status 0, and no clean bill; -v says how much was looked for."""
    file = tmp_path / "train.log"
    file.write_text("RuntimeError: moonshine upon the second batch\n")
    run = doctor("explain", "-v", file)

    assert run.status == 0
    assert "nothing known" in run.stdout
    assert "others may be in it" in " ".join(run.stdout.split())
    assert "moonshine upon the second batch" in " ".join(run.stdout.split())
    assert "recipes list` lists them" in " ".join(run.stdout.split())


def test_ranks_of_a_folder(doctor: Doctor, tmp_path: Path) -> None:
    """The same cause in packed and plain per-rank logs is one finding that names the ranks."""
    for rank in range(40):
        (tmp_path / f"rank{rank}.log").write_text(f"step 1\n{AMPERE}")
    (tmp_path / "rank40.log.gz").write_bytes(gzip.compress(AMPERE.encode()))
    run = doctor("explain", "--gpu", "t4", tmp_path)

    assert run.status == 1
    assert run.stdout.count("[error]") == 1
    assert "ranks 0-40" in run.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "status"),
    [
        ("", (), 0),
        ("ok\n", (), 0),
        (AMPERE, (), 1),
        (AMPERE, ("--skip", "flash-attn", "--skip", "extension"), 0),
        (AMPERE, ("--only", "triton"), 0),
        (AMPERE, ("--assume", "gpu.nonsense=3"), 2),
        (AMPERE, ("--gpu", "voodoo2"), 2),
        (AMPERE, ("--facts", "/nowhere"), 2),
        (AMPERE, ("--here", "--facts", "/nowhere"), 2),
    ],
)
def test_exit_status(doctor: Doctor, tmp_path: Path, text: str, arguments: tuple[str, ...], status: int) -> None:
    """1 something known, 0 nothing, 2 for what a person got wrong."""
    file = tmp_path / "a.log"
    file.write_text(text)

    assert doctor("explain", file, *arguments).status == status


def test_named_files_that_are_not_there(doctor: Doctor) -> None:
    """2, in words."""
    run = doctor("explain", "/nowhere.log")

    assert run.status == 2
    assert "/nowhere.log" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100_000,
        os.urandom(300_000),
        b"x" * 3_000_000,
        b"\xff\xfe" + b"\x00\xd8" * 500,
        b"\x1f\x8b" + b"junk" * 9,
    ],
    ids=["empty", "nulls", "random", "one line", "broken utf-16", "broken gzip"],
)
def test_garbage(doctor: Doctor, tmp_path: Path, content: bytes) -> None:
    """An answer, and no traceback; only what cannot be unpacked was not looked at."""
    file = tmp_path / "a.log"
    file.write_bytes(content)
    run = doctor("explain", file)

    assert run.status == (3 if content.startswith(b"\x1f\x8b") else 0), run.stderr
    assert "Traceback" not in run.stderr


def test_an_endless_line_is_told(doctor: Doctor, tmp_path: Path) -> None:
    """What stands at its end is found, and that its middle was not looked at is said."""
    file = tmp_path / "a.log"
    file.write_text(f"begin\n{'.' * 3_000_000}{AMPERE}\nend\n")
    run = doctor("explain", "--json", "--gpu", "t4", file)

    assert causes(run.report)[0] == "gpu-before-ampere"
    assert "line 2 has about 3.0 million characters" in run.report["logs"][0]["note"]


def test_standard_input() -> None:
    """`… | attn-doctor explain -`."""
    run = run_here("explain", "--json", "--gpu", "t4", "-", stdin=AMPERE)

    assert causes(json.loads(run.stdout))[0] == "gpu-before-ampere"


PROVOKED = {
    "attn-mask-dtype": """
        import torch
        q = torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16)
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(4, 4, dtype=torch.float16))
    """,
    "fp32-promoted-before-kernel": """
        import torch
        v = torch.zeros(1, 1, 4, 8, dtype=torch.bfloat16)
        q = k = v * torch.ones(8)
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
    """,
    "linear-dtype-mismatch": """
        import torch
        torch.nn.functional.linear(torch.zeros(2, 4), torch.zeros(3, 4, dtype=torch.bfloat16))
    """,
    "gradscaler-fp16-parameters": """
        import torch
        weight = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
        weight.grad = torch.zeros_like(weight)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(torch.ones(1))
        scaler.unscale_(torch.optim.SGD([weight], 0.1))
    """,
    "sdpa-no-backend": """
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q = torch.zeros(1, 1, 4, 8)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    """,
    "cache-dtype-mismatch": """
        import torch
        cache = torch.zeros(1, 8, 4, dtype=torch.bfloat16)
        cache.index_copy_(1, torch.tensor([0]), torch.zeros(1, 1, 4))
    """,
}


@needs_torch
@pytest.mark.parametrize("cause", PROVOKED)
def test_errors_that_torch_really_raises(doctor: Doctor, tmp_path: Path, cause: str) -> None:
    """The text of this torch, not one that was copied."""
    script = tmp_path / "provoking.py"
    script.write_text(textwrap.dedent(PROVOKED[cause]))
    run = nursery("torch").run([script], env=clean_environment(), cwd=tmp_path, timeout=120)
    assert run.returncode == 1

    assert causes(explain(doctor, run.stderr, tmp_path=tmp_path))[0] == cause


@pytest.mark.parametrize(
    ("symbol", "cause"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "flash-attn-built-for-other-torch"),
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "flash-attn-cxx11-abi-mismatch"),
    ],
)
def test_a_missing_symbol(doctor: Doctor, tmp_path: Path, symbol: str, cause: str) -> None:
    """A module that was built for another torch, refused by this loader in its own words."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "a.c"
    source.write_text(f"void {symbol}(int); void *PyInit_flash_attn_2_cuda(void) {{ {symbol}(0); return 0; }}")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "flash_attn_2_cuda.so"), str(source)],
        check=True,
        timeout=60,
    )
    run = subprocess.run(
        [sys.executable, "-c", "import flash_attn_2_cuda"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )

    assert causes(explain(doctor, run.stderr, tmp_path=tmp_path))[0] == cause


def test_errors_that_the_loader_really_raises(doctor: Doctor, tmp_path: Path) -> None:
    """A library that is not there, in the loader's own words."""
    run = subprocess.run(
        [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcudart.so.12')"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if run.returncode == 0:
        pytest.skip("this machine has libcudart.so.12")
    text = run.stderr.replace("OSError", "ImportError")

    assert causes(explain(doctor, text, tmp_path=tmp_path))[0] == "cuda-runtime-major-mismatch"


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here("check", "--", *arguments)


FAILS = f"import sys; print('out'); print('err', file=sys.stderr); raise RuntimeError({AMPERE[14:-1]!r})"


def test_check_runs_a_command_and_explains_its_failure() -> None:
    """Its output goes through as it is, the explanation goes to standard error, its exit status is ours."""
    run = check(sys.executable, "-c", FAILS)

    assert run.returncode == 1
    assert run.stdout == "out\n"
    assert run.stderr.startswith("err\n")
    assert "gpu-before-ampere" in run.stderr


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
)
def test_check_passes_the_status_through(script: str, status: int) -> None:
    """Signals are 128 + N, as a shell says it; success says nothing more."""
    run = check("bash", "-c", f"echo hello; {script}")

    assert run.returncode == status
    assert run.stdout == "hello\n"
    assert bool(run.stderr) is (status != 0)


def test_check_of_a_command_that_is_not_there() -> None:
    """2, in words."""
    run = check("/nowhere/train")

    assert run.returncode == 2
    assert "/nowhere/train" in run.stderr


def test_check_does_not_wait_for_what_was_left_running() -> None:
    """A child in the background that holds the pipes does not hold us: `check` would run into this test's limit."""
    run = check("bash", "-c", "sleep 600 & echo hello $!")
    os.kill(int(run.stdout.split()[1]), signal.SIGKILL)

    assert (run.returncode, run.stdout[:6]) == (0, "hello ")


def test_check_hands_a_signal_on() -> None:
    """scancel ends the job, and the job says how it ended."""
    process = subprocess.Popen(
        command("check", "--", "bash", "-c", "trap 'echo saved; exit 9' TERM; echo ready; while :; do sleep 0.1; done"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT, env=clean_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)

    assert (out, process.returncode) == ("saved\n", 9)


def test_a_log_that_ends_too_early(doctor: Doctor, tmp_path: Path) -> None:
    """Half an archive may hold the error in its other half: which is not to be called nothing known."""
    whole = gzip.compress(b"step 1\n" * 200_000)
    file = tmp_path / "a.log.gz"
    file.write_bytes(whole[: len(whole) // 2])
    cut = doctor("explain", file)
    file.write_bytes(whole)

    assert (cut.status, "could not be read to its end" in " ".join(cut.stdout.split())) == (3, True)
    assert doctor("explain", file).status == 0


@pytest.mark.parametrize("line", ["Fatal Python error: Segmentation fault", "Segmentation fault (core dumped)"])
def test_a_crash_is_told(doctor: Doctor, tmp_path: Path, line: str) -> None:
    """A process that a signal ended leaves no exception; its last words are not passed over."""
    file = tmp_path / "a.log"
    file.write_text(f"step 1\n{line}\n")
    run = doctor("explain", file)

    assert run.status == 0
    told = " ".join(run.stdout.split())
    assert f"not known here: {file}:2: {line}" in told or f"line 2 {line}" in told
