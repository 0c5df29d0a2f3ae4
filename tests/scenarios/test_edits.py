"""`fix` edits sources, installed packages and configurations of several frameworks: whole cases, end to end."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import (
    CHECKOUT,
    HAS_TORCH,
    Doctor,
    Environment,
    clean_environment,
    command,
    make_environment,
    run_here,
)
from tests.fix.test_keyword import AFTER, SOURCE
from tests.scenarios.test_fix import seen

I16 = "triton-bf16-becomes-i16"
PATCH = ("--only", I16, "--unsafe-fixes", "--remedy", f"{I16}=states-in-fp32", "--yes")
GSA = "fla/ops/gsa/chunk.py"


def _uv(folder: Path) -> str:
    """A real uv; from the registry where none is here."""
    found = Path(sys.executable).with_name("uv")
    if found.exists():
        return str(found)
    if shutil.which("uv"):
        return str(shutil.which("uv"))
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "uv"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"no uv is here, and none could be installed: {done.stderr[-300:]}")
    return str(folder / "bin/uv")


class Linked:
    """Two environments into which one uv linked the same files out of one cache."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.uv = _uv(folder / "tools")
        self.one, self.two = (make_environment(folder / name) for name in ("one", "two"))
        for env in (self.one, self.two):
            self.run("install", "--no-deps", "--python", str(env.python), "flash-linear-attention==0.2.1")
            env.metadata("triton", "2.2.0")

    def run(self, *arguments: str) -> None:
        environment = clean_environment(UV_CACHE_DIR=str(self.cache), UV_LINK_MODE="hardlink", UV_NO_PROGRESS="1")
        done = subprocess.run(
            [self.uv, "pip", *arguments], capture_output=True, text=True, env=environment, timeout=300
        )
        if done.returncode:
            pytest.skip(f"uv could not install from the registry: {done.stderr[-300:]}")

    def cached(self) -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.cache.rglob("*"))
            if path.is_file() and path.suffix in (".py", "") and "fla" in path.parts
        }


@pytest.mark.registry
def test_uv_links_are_left_alone(doctor: Doctor, tmp_path: Path) -> None:
    """The patch of a real package that a real uv installed changes neither uv's cache nor a sibling environment."""
    linked = Linked(tmp_path)
    file, sibling = linked.one.site / GSA, linked.two.site / GSA
    assert file.stat().st_ino == sibling.stat().st_ino, "uv did not link here: the test would prove nothing"
    before, theirs, cached = seen(linked.one.folder), seen(linked.two.folder), linked.cached()
    assert cached
    where = ("--quick", "--python", linked.one.python)

    fixed = doctor("fix", *where, *PATCH)
    assert (fixed.status, fixed.stderr) == (0, "")
    assert f"Fixed, confirmed by a new check: {I16}" in fixed.stdout
    assert (seen(linked.two.folder), linked.cached()) == (theirs, cached)
    assert file.stat().st_ino != sibling.stat().st_ino
    assert _difference(sibling.read_text(), file.read_text()) == [
        "-            states_in_fp32=False",
        "+            states_in_fp32=True",
    ]

    checked = doctor.check(linked.one, "--quick")
    assert I16 not in checked.findings
    assert checked.findings["package-patched"]["severity"] == "info"
    assert checked.findings["package-patched"]["locations"][0]["file"] == str(file)
    again = doctor("fix", *where, *PATCH)
    assert (again.status, "Nothing to change" in again.stdout) == (0, True)

    undone = doctor("undo", "--python", linked.one.python)
    assert (undone.status, seen(linked.one.folder)) == (0, before)
    assert "package-patched" not in doctor.check(linked.one, "--quick").findings


@pytest.mark.registry
def test_an_upgrade_takes_the_patch_away(doctor: Doctor, tmp_path: Path) -> None:
    """uv knows every file of the patched package, the note as well: it replaces them all, and the note is gone."""
    linked = Linked(tmp_path)
    doctor("fix", "--quick", "--python", linked.one.python, *PATCH)
    assert (linked.one.site / "flash_linear_attention-0.2.1.dist-info/attn-doctor.json").exists()
    linked.run("install", "--no-deps", "--python", str(linked.one.python), "flash-linear-attention==0.2.2")

    assert not list(linked.one.site.glob("*/attn-doctor.json"))
    assert not list(linked.one.site.glob("flash_linear_attention-0.2.1*"))
    assert "package-patched" not in doctor.check(linked.one, "--quick").findings


def _difference(before: str, after: str) -> list[str]:
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in found if line[:1] in "+-" and line[:3] not in ("+++", "---")]


MODEL = """
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        q, k, v = self.qkv(x).view(1, 8, 3, 2, 32).permute(2, 0, 3, 1, 4)
        q = q * self.scale
        k = self.scale * k  # self.scale
        return scaled_dot_product_attention(q, k, v)


def factory():
    model = Attention().half()
    model.scale.data = model.scale.data.float()
    return model, (torch.zeros(1, 8, 64).half(),)
"""


@pytest.mark.skipif(not HAS_TORCH, reason="the Python that runs the tests has no torch")
def test_the_named_operand_is_cast(tmp_path: Path) -> None:
    """The parameter that a trace named is cast where it meets q and k; the run is clean, undo restores the bytes."""
    project = tmp_path / "model"
    project.mkdir()
    (project / "model.py").write_text(MODEL)
    make_environment(tmp_path / "patient", torch=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, "--python", tmp_path / "patient", cwd=project)

    trouble = "fp32-promoted-before-kernel"
    fixed = run("fix", "--trace", "model.py:factory", "--yes", "--unsafe-fixes", "--only", trouble,
                "--remedy", f"{trouble}=cast-operand")  # fmt: skip
    after = (project / "model.py").read_text()
    traced = run("trace", "model.py:factory", "--json")
    undone = run("undo")

    assert (fixed.returncode, fixed.stderr) == (0, "")
    expected = MODEL.replace("q * self.scale\n", "q * self.scale.to(q.dtype)\n")
    assert after == expected.replace("self.scale * k ", "self.scale.to(k.dtype) * k ")
    assert json.loads(traced.stdout)["trace"]["attention"][0]["verdict"] == "clean"
    assert (undone.returncode, (project / "model.py").read_text()) == (0, MODEL)


TRAIN = "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\ndeepspeed: ds.json\nbf16: true\n"
ZERO = (
    b'{\r\n  "train_batch_size": 8,\r\n  "zero_optimization": {"stage": 2},\r\n  "fp16": {"enabled": true, "x": 1}\r\n}'
)
LAUNCH = (
    b"compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: 'fp16' # x\nnum_processes: 8"
)


@pytest.fixture
def run_files(tmp_path: Path) -> list[Path]:
    """A run's three files, in a project."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    for name, content in (("train.yaml", TRAIN.encode()), ("ds.json", ZERO), ("launch.yaml", LAUNCH)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o640)
    return [folder / name for name in ("train.yaml", "ds.json", "launch.yaml")]


def test_contradictions_are_mended(
    doctor: Doctor, environment: Callable[..., Environment], run_files: list[Path]
) -> None:
    """DeepSpeed lets the trainer decide, accelerate says what the trainer does; byte-exact, proven, undone."""
    patient = environment()
    before = seen(run_files[0].parent)
    where = ["--quick", "--python", patient.python, *(word for file in run_files for word in ("--config", file))]
    checked = doctor.check(patient, "--quick", *(word for file in run_files for word in ("--config", file)))
    assert checked.findings["deepspeed-precision-mismatch"]["severity"] == "error"
    assert checked.findings["accelerate-precision-overruled"]["severity"] == "warning"
    told = " ".join(doctor("check", *where).stdout.split())
    assert "ds.json: deepspeed (it has train_batch_size, zero_optimization, fp16.enabled)" in told

    fixed = doctor("fix", "--yes", *where)
    assert (fixed.status, fixed.stderr) == (0, "")
    train, zero, launch = run_files
    assert train.read_text() == TRAIN
    assert zero.read_bytes() == ZERO.replace(b'"enabled": true', b'"enabled": "auto"')
    assert launch.read_bytes() == LAUNCH.replace(b"'fp16'", b"'bf16'")
    assert {file.stat().st_mode & 0o777 for file in run_files} == {0o640}
    assert "Nothing to change" in doctor("fix", "--yes", *where).stdout

    undone = doctor("undo", "--python", patient.python, "--config", run_files[0])
    assert (undone.status, seen(run_files[0].parent)) == (0, before)


@pytest.mark.parametrize(
    ("gpu", "after"), [("sm_90", b'"fp16": {"enabled": false}'), ("sm_75", b'"bf16": {"enabled": false}')]
)
def test_which_half_is_kept_is_the_gpus_to_say(
    doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path, gpu: str, after: bytes
) -> None:
    """bf16 where every GPU has it, else fp16; and nothing where no GPU is known."""
    patient = environment()
    file = tmp_path / "ds.json"
    before = b'{"train_batch_size": 8, "zero_optimization": {}, "bf16": {"enabled": true}, "fp16": {"enabled": true}}'
    file.write_bytes(before)
    where = ("fix", "--quick", "--yes", "--unsafe-fixes", "--python", patient.python, "--config", file, "--only",
             "precision-both-halves")  # fmt: skip
    unknown = doctor(*where)
    assert (unknown.status, file.read_bytes()) == (1, before)
    assert "not known whether" in unknown.stdout

    fixed = doctor(*where, "--gpu", gpu)
    assert (fixed.status, fixed.stderr) == (0, "")
    assert after in file.read_bytes()


RECIPE = """
format = 1
id = "evil"
title = "evil"
severity = "error"
checked = 2026-11-21
status = "stable"
since = "0.1.0"
what = "x"
why = "x"
[[reference]]
kind = "web"
url = "https://example.org/"
[[when]]
fact = "python.version"
present = true
[[remedy]]
id = "cure"
title = "x"
safety = "safe"
actions = [{action}]
[[case]]
facts = {{ "python.version" = "3.11" }}
expect = "finds"
[[case]]
facts = {{ "torch.version" = "2.0" }}
expect = "clears"
"""
KEYWORD = (
    'kind = "edit-source", edit = "set-keyword", packages = ["victim>=1"], file = "victim/a.py", function = "f", '
    'call = "g", keyword = "x", value = "True"'
)


@pytest.mark.parametrize(
    "action",
    [
        KEYWORD.replace("victim/a.py", "../../../outside.py"),
        KEYWORD.replace("victim/a.py", "/tmp/outside.py"),
        KEYWORD.replace('"True"', '"True, **evil()"'),
        KEYWORD.replace('"True"', '"__import__(\'os\')"'),
        KEYWORD.replace('"True"', '"True\\\\n    evil()"'),
        KEYWORD.replace('"g"', '"g(evil())"'),
        KEYWORD.replace('["victim>=1"]', '["victim @ file:///tmp/x"]'),
        KEYWORD.replace('["victim>=1"]', "[]"),
        'kind = "set-config", key = "bf16", value = "true\\\\nevil: 1"',
        'kind = "set-config", key = "bf16", value = "!!python/object/apply:os.system"',
        'kind = "set-config", key = "a: 1\\\\nb", value = "x"',
        'kind = "set-config", key = "../x", value = "x", file = "/etc/passwd"',
    ],
)  # fmt: skip
def test_hostile_recipes_are_refused(
    doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path, action: str
) -> None:
    """A recipe that names another place, or a value that would be code, is refused when it is read."""
    patient = environment()
    folder = tmp_path / "recipes/evil/evil"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE.format(action="{ " + action.replace("\\\\n", "\\n") + " }"))
    before = seen(patient.folder)
    run = doctor(
        "fix", "--quick", "--yes", "--unsafe-fixes", "--python", patient.python, "--recipes", tmp_path / "recipes"
    )

    assert (run.status, seen(patient.folder)) == (2, before)
    assert "the recipe has" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("way", ["link", "folder", "record", "changed"])
def test_a_recipe_cannot_lead_out_by_what_is_installed(
    doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path, way: str
) -> None:
    """A sound recipe for a package whose files lead elsewhere: nothing outside is written, and the reason is told."""
    patient = environment()
    outside = tmp_path / "outside"
    outside.mkdir()
    source = "def f():\n    return g(x=False)\n"
    (outside / "a.py").write_text(source)
    info = patient.metadata("fla-core", "0.4.0")
    if way == "folder":
        (patient.site / "fla").symlink_to(outside)
    else:
        (patient.site / "fla").mkdir()
        if way == "link":
            (patient.site / "fla/a.py").symlink_to(outside / "a.py")
        else:
            (patient.site / "fla/a.py").write_text(source + ("# mine\n" if way == "changed" else ""))
    digest = base64.urlsafe_b64encode(hashlib.sha256(source.encode()).digest()).rstrip(b"=").decode()
    row = "../outside/a.py" if way == "record" else "fla/a.py"
    (info / "RECORD").write_text(f"{row},sha256={digest},{len(source)}\n{info.name}/RECORD,,\n")
    folder = tmp_path / "recipes/sound/evil"
    folder.mkdir(parents=True)
    action = KEYWORD.replace("victim/a.py", "fla/a.py").replace("victim>=1", "fla-core>=0.4")
    (folder / "recipe.toml").write_text(RECIPE.format(action="{ " + action + " }"))
    before = seen(patient.folder), seen(outside)
    run = doctor("fix", "--quick", "--yes", "--unsafe-fixes", "--python", patient.python, "--only", "evil",
                 "--recipes", tmp_path / "recipes")  # fmt: skip

    assert run.status == 1
    assert (seen(patient.folder), seen(outside)) == before
    reasons = {"link": "link", "folder": "link", "record": "0 distributions", "changed": "somebody has changed it"}
    assert reasons[way] in run.stdout


@pytest.fixture
def planted(environment: Callable[..., Environment]) -> Environment:
    """An old Triton's metadata, and a package whose gated slot attention recomputes in half precision."""
    patient = environment()
    patient.metadata("triton", "2.2.0")
    info = patient.metadata("flash-linear-attention", "0.2.1")
    file = patient.site / GSA
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    content = SOURCE.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    (info / "RECORD").write_text(f"{GSA},sha256={digest},{len(content)}\n{info.name}/RECORD,,\n")
    return patient


def test_two_at_once(planted: Environment) -> None:
    """Two people patch one environment in the same moment: one does, the other is told or finds nothing to do."""
    line = command("fix", "--quick", "--python", planted.python, *PATCH)
    both = [
        subprocess.Popen(line, cwd=CHECKOUT, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    ends = [(*one.communicate(timeout=120), one.returncode) for one in both]

    assert (planted.site / GSA).read_text() == AFTER
    statuses = sorted(status for _, _, status in ends)
    assert statuses in ([0, 0], [0, 3]), ends
    assert not any(b"Traceback" in error for _, error, _ in ends)
    record = (planted.site / "flash_linear_attention-0.2.1.dist-info/RECORD").read_text()
    assert record.count("attn-doctor.json") == 1


def test_a_person_is_shown_both_roads(doctor: Doctor, planted: Environment) -> None:
    """Upgrades say that torch comes along; the patch says that the next upgrade takes it away; neither is safe."""
    finding = doctor.check(planted, "--quick").findings[I16]
    remedies = {one["id"]: one for one in finding["remedies"]}

    assert list(remedies) == ["torch-for-older-driver", "states-in-fp32"]
    assert "torch, triton and the CUDA packages change" in remedies["torch-for-older-driver"]["why_this_safety"]
    assert "the next upgrade takes the patch away" in remedies["states-in-fp32"]["why_this_safety"]
    refused = doctor("fix", "--quick", "--yes", "--python", planted.python, "--only", I16)
    assert (refused.status, (planted.site / GSA).read_text()) == (1, SOURCE)


def test_a_source_changed_since_the_plan(doctor: Doctor, planted: Environment, tmp_path: Path) -> None:
    """A saved plan is for the file that it saw: somebody else's edit stays, and the plan is stale."""
    plan = tmp_path / "plan.json"
    where = ("--quick", "--python", planted.python)
    assert doctor("fix", *where, *PATCH, "--save-plan", plan).status == 0
    (planted.site / GSA).write_text(SOURCE + "# mine\n")
    stale = doctor("fix", *where, "--unsafe-fixes", "--yes", "--plan", plan)

    assert (stale.status, (planted.site / GSA).read_text()) == (3, SOURCE + "# mine\n")
    assert "changed since" in stale.stderr
    (planted.site / GSA).write_text(SOURCE)
    done = doctor("fix", *where, "--unsafe-fixes", "--yes", "--plan", plan)
    assert (done.status, (planted.site / GSA).read_text()) == (0, AFTER)


def test_a_script_with_several_calls(doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path) -> None:
    """Each call is mended where it stands, and a file that a call is given in that file; undo gives the bytes back."""
    script, given = tmp_path / "run.sh", tmp_path / "t.yaml"
    script.write_text(
        "#!/bin/bash\nllamafactory-cli train t.yaml\n"
        "llamafactory-cli train --stage sft --do_train --flash_attn fa2 --bf16\n"
        "llamafactory-cli train --stage sft --do_predict --flash_attn sdpa\n"
    )
    given.write_text("stage: sft\nfinetuning_type: lora\nflash_attn: fa2\nbf16: true\n")
    before = script.read_text(), given.read_text()
    env = environment()
    torch_file = env.package("torch", "2.8.0", "")
    torch_file.with_name("version.py").write_text("__version__ = '2.8.0'\ncuda = None\nhip = None\n")
    options = ("--quick", "--python", env.python, "--config", script, "--only", "config-fa2-not-installed")

    done = doctor("fix", *options, "--unsafe-fixes", "--yes")

    assert done.status == 0, done.stderr + done.stdout
    assert script.read_text() == before[0].replace("--flash_attn fa2", "--flash_attn auto")
    assert given.read_text() == before[1].replace("fa2", "auto")
    run = next(word for word in done.stdout.split() if word.startswith("20") and "T" in word).rstrip(";")
    assert doctor("undo", run, "--python", env.python, "--config", script).status == 0
    assert (script.read_text(), given.read_text()) == before
