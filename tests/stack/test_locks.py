"""Lock files and manifests: what they would install, and in which line that is said."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest

from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.report import picker
from attn_doctor.report.renderer import CHECK, Manner
from attn_doctor.stack.locks.pins import LockRead
from attn_doctor.stack.locks.read import read
from attn_doctor.workflows.check_lock import CheckLockRequest, check_lock

UV = """version = 1
requires-python = ">=3.12"

[[package]]
name = "flash-attn"
version = "2.8.3+cu12torch2.8"
source = { url = "https://example.org/flash_attn-2.8.3+cu12torch2.8-cp312-cp312-linux_aarch64.whl" }
resolution-markers = [
    "platform_machine == 'aarch64' and sys_platform == 'linux'",
]

[[package]]
name = "flash-linear-attention"
version = "0.5.1"
source = { registry = "https://example.org/simple" }

[[package]]
name = "torch"
version = "2.11.0+cu130"
source = { registry = "https://download.pytorch.org/whl/cu130" }

[[package]]
name = "triton"
version = "3.6.0"
source = { registry = "https://example.org/simple" }
"""
REQUIREMENTS = """-r more.txt
--extra-index-url https://download.pytorch.org/whl/cu126
torch==2.13.0 ; python_version < "3.20"   # ours
flash_attn
numpy==1.0 ; sys_platform == "win32"
xformers==0.0.28 \\
  --hash=sha256:00
"""
DOCKERFILE = """ARG TORCH=2.6.0
FROM pytorch/pytorch:${TORCH}-cuda12.4-cudnn9-devel
ARG WITH=false
RUN pip install --no-cache-dir -U \\
      "transformers==4.50.0" \\
      flash-attn==2.7.4 && \\
    uv pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu128
RUN if [ "${WITH}" == "true" ]; then pip install xformers==0.0.1; fi
"""
CONDA = """name: x
dependencies:
  - python=3.11
  - pytorch=2.5.1
  - pytorch-cuda=12.4
  - pip:
    - flash-attn==2.7.0
"""
PROJECT = """[project]
requires-python = ">=3.11"
dependencies = [
  "torch==2.13.0",
  "flash-attn>=2.7",
]
[[tool.uv.index]]
name = "pt"
url = "https://download.pytorch.org/whl/cu129"
[tool.uv.sources]
torch = [{ index = "pt" }]
"""
POETRY = """[[package]]
name = "torch"
version = "2.13.0"

[[package]]
name = "xformers"
version = "0.0.27"

[metadata]
python-versions = "^3.11"
"""


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def pins(lock: LockRead) -> dict[str, tuple[str, int]]:
    return {one.name: (one.version, one.line) for one in lock.pins}


@pytest.mark.parametrize(
    ("name", "text", "expected", "cuda", "python"),
    [
        (
            "uv.lock",
            UV,
            {"flash-linear-attention": ("0.5.1", 13), "torch": ("2.11.0+cu130", 18), "triton": ("3.6.0", 23)},
            "13.0",
            "3.12",
        ),
        (
            "requirements.txt",
            REQUIREMENTS,
            {"einops": ("0.8.1", 1), "torch": ("2.13.0", 3), "flash-attn": ("", 4), "xformers": ("0.0.28", 6)},
            "12.6",
            "",
        ),
        (
            "Dockerfile",
            DOCKERFILE,
            {"torch": ("2.8.0", 4), "transformers": ("4.50.0", 4), "flash-attn": ("2.7.4", 4)},
            "12.8",
            "",
        ),
        ("environment.yml", CONDA, {"torch": ("2.5.1", 4), "flash-attn": ("2.7.0", 7)}, "12.4", "3.11"),
        ("pyproject.toml", PROJECT, {"torch": ("2.13.0", 4), "flash-attn": ("", 5)}, "12.9", "3.11"),
        ("poetry.lock", POETRY, {"torch": ("2.13.0", 2), "xformers": ("0.0.27", 6)}, None, "3.11"),
    ],
)
def test_each_kind(
    tmp_path: Path, name: str, text: str, expected: dict[str, tuple[str, int]], cuda: str | None, python: str
) -> None:
    """Versions, lines, the CUDA of torch and the Python, as far as each says them."""
    written(tmp_path, "more.txt", "einops==0.8.1\n-r requirements.txt\n")

    found = read(written(tmp_path, name, text), python="", machine="x86_64")

    relevant = {key: value for key, value in pins(found).items() if key != "pip"}
    assert relevant == expected
    assert (found.cuda, found.python) == (cuda, python)


def test_a_replaced_torch_is_told(tmp_path: Path) -> None:
    """An image's torch that a later line takes away."""
    found = read(written(tmp_path, "Dockerfile", DOCKERFILE), python="", machine="x86_64")

    assert "torch 2.8.0 replaces torch 2.6.0 of line 2" in found.notes[0]


@pytest.mark.parametrize(
    ("image", "torch", "cuda"),
    [
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "2.6.0", "12.4"),
        ("hiyouga/pytorch:th2.6.0-cu124-flashattn2.7.4-cxx11abi0-devel", "2.6.0", "12.4"),
        ("python:3.12-slim", None, None),
    ],
)
def test_torch_in_the_name_of_an_image(tmp_path: Path, image: str, torch: str | None, cuda: str | None) -> None:
    file = written(tmp_path, "Dockerfile", f"FROM {image}\nRUN pip install peft==0.21.2\n")
    lock = read(file, python="3.12", machine="x86_64")

    assert pins(lock).get("torch", (None, 0))[0] == torch
    assert lock.cuda == cuda


def test_a_wheel_that_is_named_for_another_torch(tmp_path: Path) -> None:
    """At the line of the wheel; one for this torch, and one that was seen to hold beside it, are silent."""
    address = "https://x.invalid/flash_attn-2.8.3%2Bcu13torch{}cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"

    def found(torch: str, named: str) -> list[tuple[str, int | None]]:
        text = f"torch=={torch}\nflash-attn @ {address.format(named)}\n"
        file = written(tmp_path, "requirements.txt", text)
        findings = check_lock(CheckLockRequest(file=file, gpu="h100")).diagnosis.findings
        return [(one.id, one.locations[0].line) for one in findings]

    assert found("2.13.0", "2.9") == [("wheel-named-for-other-torch", 2)]
    assert found("2.13.0", "2.13") == []
    assert found("2.11.0", "2.10") == []


def test_several_versions_are_left_open(tmp_path: Path) -> None:
    """Extras that exclude each other have one each: which one is installed the lock does not say."""
    text = UV + '\n[[package]]\nname = "triton"\nversion = "3.7.1"\n'

    found = read(written(tmp_path, "uv.lock", text), python="", machine="x86_64")

    assert "triton" not in pins(found)
    assert "several versions" in found.notes[0]


@pytest.mark.parametrize(
    ("name", "text"), [("uv.lock", "[[package"), ("notes.md", "hello"), ("requirements.txt", "\ufeff\udcff")]
)
def test_what_is_no_lock(tmp_path: Path, name: str, text: str) -> None:
    """One message, in three parts."""
    file = tmp_path / name
    file.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(BadInput) as caught:
        read(file, python="", machine="x86_64")

    assert caught.value.about.startswith("--lock")
    assert caught.value.hint


def test_findings_stand_at_their_pins(tmp_path: Path) -> None:
    """File and line of the release at fault; marked as foreseen; a valid report."""
    report = check_lock(CheckLockRequest(file=written(tmp_path, "uv.lock", UV), gpu="h100"))
    told = report_v1.to_json(report)

    jsonschema.validate(told, json.loads(report_v1.json_schema()))
    found = {one["id"]: one for one in told["findings"]}
    assert "triton-hopper-wrong-gradients" in found
    assert all(one["foreseen"] for one in told["findings"])
    assert {23, 13} <= {place["line"] for place in found["triton-hopper-wrong-gradients"]["locations"]}


def test_what_is_sound_is_silent(tmp_path: Path) -> None:
    """The same on a GPU that knows no such fault, and a lock without one."""
    file = written(tmp_path, "uv.lock", UV.replace("0.5.1", "0.6.0").replace("3.6.0", "3.7.1"))

    assert check_lock(CheckLockRequest(file=file, gpu="a100")).diagnosis.findings == ()


def test_unpinned_packages_are_those_of_today(tmp_path: Path) -> None:
    """flash-attn of any release does not run on a T4; of torch without a pin nothing is said."""
    file = written(tmp_path, "requirements.txt", "torch>=2.4\nflash_attn\n")

    report = check_lock(CheckLockRequest(file=file, gpu="t4"))

    assert [one.id for one in report.diagnosis.findings] == ["gpu-before-ampere"]


def test_a_driver_that_does_not_know_the_named_gpu(tmp_path: Path) -> None:
    """It is about the node alone, and told where the node was named whole."""
    (file := tmp_path / "requirements.txt").write_text("torch==2.9.0\n")

    def found(driver: str) -> list[str]:
        named = (f"driver.version={driver}",) if driver else ()
        report = check_lock(CheckLockRequest(file=file, gpu="b200", assumptions=named))
        return [one.id for one in report.diagnosis.findings]

    assert found("550.54.15") == ["driver-does-not-know-gpu"]
    assert found("580.65.06") == []
    assert found("") == []


def test_a_gpu_that_torch_has_no_code_for(tmp_path: Path) -> None:
    """By the index that the file names."""
    file = written(tmp_path, "requirements.txt", REQUIREMENTS.replace("cu126", "cu130"))

    found = check_lock(CheckLockRequest(file=file, gpu="v100")).diagnosis.findings

    assert "torch-lacks-gpu-arch" in [one.id for one in found]


def test_annotations_of_a_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each finding, at its place."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    report = check_lock(CheckLockRequest(file=written(tmp_path, "uv.lock", UV), gpu="h100"))
    stream = io.StringIO()

    picker.pick(CHECK, "github").write(report, stream, Manner())

    assert "::warning file=uv.lock,line=" in stream.getvalue()


def test_the_text_names_the_file_and_what_can_be_typed(tmp_path: Path) -> None:
    """The file stands in the place of an environment; `fix` changes no lock file, so that it is not named."""
    file = tmp_path / "requirements.txt"
    file.write_text("torch==2.9.1\nxformers==0.0.30\n")
    report = check_lock(CheckLockRequest(file=file, gpu="a100"))
    out = io.StringIO()
    picker.pick(CHECK).write(report, out, Manner())
    text = out.getvalue()

    assert f"{file} (2 packages; nothing is installed)" in text.replace("\n", " ")
    assert f"check --lock {file} --gpu a100 --format markdown" in text.replace("\n", " ")
    assert "attn-doctor fix" not in text
    assert "--quick" not in text
