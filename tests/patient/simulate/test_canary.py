"""The Triton canary, through bootstrap.py as the doctor starts it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import attn_doctor

BOOTSTRAP = Path(attn_doctor.__file__).parent / "patient" / "bootstrap.py"


def canary(folder, path, **request):
    """The canary's answer with `path` in front on sys.path."""
    for name in ("scratch", "answers"):
        (folder / name).mkdir()
    asked = folder / "request.json"
    whole = {
        "task": "canary_task",
        "gpu": {"compute_capability": "8.0"},
        "timeout": 60,
        "scratch": str(folder / "scratch"),
    }
    asked.write_text(json.dumps({**whole, **request}))
    done = subprocess.run(
        [sys.executable, str(BOOTSTRAP), str(asked), str(folder / "answers")],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
    return json.loads((folder / "answers" / "canary.json").read_text())


def stub(folder, source, version=True):
    """A package `triton` that is nothing but `source`."""
    package = folder / "stubs" / "triton"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(('__version__ = "3.6.0"\n' if version else "") + source)
    return folder / "stubs"


@pytest.mark.triton
def test_a_new_triton_compiles_it(triton, tmp_path):
    """Triton 3.7.1 compiles a transposed bfloat16 tile, and the answer names the version that was asked."""
    answer = canary(tmp_path, triton.folder)

    assert (answer["outcome"], answer["triton_version"], answer["compute_capability"]) == ("compiled", "3.7.1", "8.0")
    assert not answer["bf16_becomes_i16"]
    assert not (tmp_path / ".triton").exists()


@pytest.mark.triton
def test_a_gpu_that_triton_does_not_know(triton, tmp_path):
    """What the compiler refuses for another reason is refused, and is not the i16 trouble."""
    answer = canary(tmp_path, triton.folder, gpu={"compute_capability": "13.5", "shared_memory_bytes": 232448})

    assert answer["outcome"] in ("refused", "aborted")
    assert answer["message"]
    assert not answer["bf16_becomes_i16"]


def test_no_triton(tmp_path):
    """Without Triton the answer is absent, which is not a failure to look."""
    (tmp_path / "nothing").mkdir()

    answer = canary(tmp_path, tmp_path / "nothing")

    assert (answer["outcome"], answer["triton_version"]) == ("absent", None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ended with SIGSEGV"),
        ("raise ImportError('libcuda.so.1: cannot open shared object file')", "libcuda.so.1"),
        ("import triton_dependency", "triton_dependency"),
        ("import time; time.sleep(60)", "did not end within 2 s"),
        ("import os; os._exit(0)", "failed"),
    ],
)
def test_a_triton_that_does_not_import(tmp_path, source, words):
    """When Triton cannot be imported, nothing is known of the kernel: could not look, with the reason."""
    answer = canary(tmp_path, stub(tmp_path, source), timeout=2)

    assert (answer["outcome"], answer["triton_version"]) == ("could_not_look", None)
    assert words in answer["message"]


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("import os; os.write(2, b\"error: Expected 'i16' but got 'bf16'\"); os.abort()", "aborted"),
        ("import time; time.sleep(60)", "could_not_look"),
    ],
)
def test_a_triton_that_breaks_later(tmp_path, source, outcome):
    """What happens after the import is told of the kernel: an abort is aborted; one that only waited tells nothing."""
    stubs = stub(tmp_path, "def jit(fn):\n    return fn\n")
    (stubs / "triton" / "language.py").write_text("class constexpr: pass\n")
    for package in ("compiler", "runtime"):
        (stubs / "triton" / package).mkdir()
        (stubs / "triton" / package / "__init__.py").write_text(source + "\n" if package == "compiler" else "")

    answer = canary(tmp_path, stubs, timeout=3)

    assert (outcome, "3.6.0") == (answer["outcome"], answer["triton_version"])
    assert (outcome == "aborted") == answer["bf16_becomes_i16"]


@pytest.mark.parametrize("request_", [{"gpu": {"compute_capability": "x"}}, {"scratch": "/nowhere/at/all"}])
def test_a_request_that_cannot_be_met(tmp_path, request_):
    """A request that makes no sense is answered, not thrown back."""
    (tmp_path / "nothing").mkdir()

    answer = canary(tmp_path, tmp_path / "nothing", **request_)

    assert answer["outcome"] == "could_not_look"
    assert answer["message"]


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1"])
def test_old_tritons_abort(triton_beside, tmp_path, version):
    """Triton 2.1 to 2.3 abort on it, with the i16 text."""
    answer = canary(tmp_path, triton_beside(version).folder)

    assert ("aborted", "SIGABRT", version) == (answer["outcome"], answer["signal"], answer["triton_version"])
    assert "Expected 'i16' but got 'bf16'" in answer["message"]
    assert answer["bf16_becomes_i16"]


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["3.0.0", "3.2.0", "3.6.0", "3.9.0"])
def test_newer_tritons_compile_it(triton_beside, tmp_path, version):
    """From 3.0.0 on it compiles."""
    answer = canary(tmp_path, triton_beside(version).folder)

    assert ("compiled", version, False) == (answer["outcome"], answer["triton_version"], answer["bf16_becomes_i16"])
