"""`attn-doctor trace` as a person uses it, on a machine without a GPU."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from attn_doctor.formats import report_v1
from tests.conftest import run_here

torch = pytest.importorskip("torch")

MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from flash_attn import flash_attn_func


class Attention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.scale = nn.Parameter(torch.full((1, heads, 1), 4.0).log())
        self.qkv = nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).unbind(2)
        q = F.normalize(q, dim=-1)
        q = q * self.scale.exp()
        k = F.normalize(k, dim=-1)
        if MENDED:
            q, k = q.to(v.dtype), k.to(v.dtype)
        return flash_attn_func(q, k, v).flatten(2)


MENDED = False


def broken(layers=2):
    return nn.Sequential(*(Attention() for _ in range(int(layers)))).cuda(), torch.randn(2, 8, 64, device="cuda")


def mended():
    global MENDED
    MENDED = True
    return broken()


def stretched():
    return lambda x, y: x * y, (torch.randn(2, 3), torch.randn(2, 5, dtype=torch.float16))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(8))
        self.out = nn.Linear(8, 8).bfloat16()

    def forward(self, x):
        return self.out(x * self.gain)


def half_but_a_gain():
    return Normed(), (torch.randn(2, 8).bfloat16(),)


def raising():
    raise RuntimeError("no such weights")
"""


def trace(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_here("trace", *arguments, cwd=folder, env={} if path is None else {"PYTHONPATH": str(path)})


#: The same, where two tests look at one run: of a file that no test writes anew.
once = functools.cache(trace)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    (made / "model.py").write_text(MODEL)
    return made


def line(text: str) -> int:
    return next(number for number, one in enumerate(MODEL.splitlines(), start=1) if text in one)


def test_the_lines_that_promoted_are_named(folder: Path) -> None:
    """Both promoters of q are named with their lines, the normalisation of k too; v is not blamed."""
    ended = once(folder, "model.py:broken", "--autocast", "fp16", "--json")
    report = json.loads(ended.stdout)
    jsonschema.validate(report, json.loads(report_v1.json_schema()))
    places = {(found["id"], found["locations"][0]["line"]) for found in report["findings"]}

    assert ended.returncode == 1
    assert places == {
        ("fp32-promoted-before-kernel", line("q = F.normalize")),
        ("fp32-promoted-before-kernel", line("q = q * self.scale")),
        ("fp32-promoted-before-kernel", line("k = F.normalize")),
    }
    assert all("v" not in report["facts"][f"promotion.{i}.roles"]["value"] for i in range(3))


def test_a_person_sees_the_path(folder: Path) -> None:
    """The guilty lines quoted, the expressions underlined, the parameter named; with -v three columns of steps."""
    said = trace(folder, "model.py:broken", "--autocast", "fp16").stdout
    whole = trace(folder, "model.py:broken", "--autocast", "fp16", "-v").stdout

    assert f"{line('q = q * self.scale')} |  q = q * self.scale.exp()" in said
    assert "scale (fp32)" in said
    assert "fp16→fp32 F.normalize" in whole
    assert "scale (float32)" in whole


def test_the_mended_model_is_clean(folder: Path) -> None:
    """With both cast back there is nothing to find."""
    ended = trace(folder, "model.py:mended", "--autocast", "fp16")

    assert (ended.returncode, "clean  flash_attn_func" in ended.stdout) == (0, True)


def test_a_mixed_product_is_followed_to_its_parameter(folder: Path) -> None:
    """Where no attention is reached because a Linear refuses its operands, each one's dtype is followed as well."""
    ended = trace(folder, "model.py:half_but_a_gain")

    assert (ended.returncode, "✗ linear-dtype-mismatch" in ended.stdout) == (1, True)
    assert f"raises  F.linear  model.py:{line('self.out(x * self.gain)')}" in ended.stdout
    assert "Tensor.mul made an operand bf16→fp32: mixed operands" in ended.stdout
    assert "from parameter gain (float32)" in ended.stdout
    assert "from parameter out.weight (bfloat16)" in ended.stdout


def test_shapes_that_differ_are_no_dtype_trouble(folder: Path) -> None:
    """Two dtypes in a call that fails for another reason are not what is wrong with it."""
    ended = trace(folder, "model.py:stretched")

    assert (ended.returncode, "linear-dtype-mismatch" in ended.stdout) == (3, False)
    said = " ".join(ended.stdout.split())
    assert f"RuntimeError at {folder}/model.py:{line('lambda x, y: x * y')}: The size of tensor" in said


@pytest.mark.parametrize(("gpu", "findings"), [("v100", ["gpu-before-ampere"]), ("a100", [])])
def test_flash_attn_on_an_old_gpu(folder: Path, gpu: str, findings: list[str]) -> None:
    """A call that flash-attn refuses for the GPU's age is explained, whether it is installed or stood in for."""
    ended = once(folder, "model.py:mended", "--autocast", "fp16", "--gpu", gpu, "--json")

    assert [found["id"] for found in json.loads(ended.stdout)["findings"]] == findings
    assert ended.returncode == len(findings)


def test_arguments_reach_the_factory(folder: Path) -> None:
    """--arg hands values on."""
    report = json.loads(once(folder, "model.py:mended", "--autocast", "fp16", "--gpu", "a100", "--json").stdout)
    assert report["trace"]["attention"][0]["calls"] == 2
    ended = trace(folder, "model.py:broken", "--arg", "layers=5", "--autocast", "fp16", "--json")

    assert json.loads(ended.stdout)["trace"]["entry"]["kwargs"] == {"layers": "5"}


@pytest.mark.parametrize("command", [["python", "-u"], [sys.executable]])
def test_a_program_as_it_is_typed(folder: Path, command: list[str]) -> None:
    """A command line that begins with an interpreter is that program, run by it."""
    (folder / "typed.py").write_text(
        "import sys, model\nassert sys.argv[1] == '--steps'\nnet, x = model.mended()\nnet(x)\n"
    )
    report = json.loads(trace(folder, "--json", "--", *command, "typed.py", "--steps").stdout)

    assert report["trace"]["entry"]["target"] == str(folder / "typed.py")
    assert report["trace"]["attention"]


@pytest.mark.parametrize(
    ("command", "said"),
    [(["torchrun", "--nproc-per-node", "2", "t.py"], "launcher"), (["python", "-m", "t"], "the file of a program")],
)
def test_what_cannot_be_followed_is_refused(folder: Path, command: list[str], said: str) -> None:
    """A launcher, or a module, is not run as if it were the script."""
    ended = trace(folder, "--", *command)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_what_only_lies_there_is_not_told(folder: Path, tmp_path: Path) -> None:
    """A flash-attn that this GPU cannot run is none of a trace's business where the model does not call it."""
    (tmp_path / "flash_attn-2.8.3.dist-info").mkdir()
    (tmp_path / "flash_attn-2.8.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n"
    )
    (folder / "sdpa.py").write_text(
        "import torch\n\ndef build():\n    x = torch.randn(1, 2, 8, 16)\n"
        "    return (lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q)), (x,)\n"
    )
    ended = trace(folder, "sdpa.py:build", "--gpu", "v100", "--json", path=tmp_path)
    report = json.loads(ended.stdout)

    assert report["facts"]["package.flash-attn.version"]["value"] == "2.8.3"
    assert (ended.returncode, report["findings"]) == (0, [])


def test_a_program_of_ones_own(folder: Path) -> None:
    """`-- script.py ARGS` traces until the first broken call; the script's own output stays out of the report."""
    (folder / "train.py").write_text(
        "import sys, torch, model\nprint('noise', sys.argv[1])\nnet, x = model.broken()\n"
        "with torch.autocast('cuda', torch.float16):\n    net(x)\n"
    )
    ended = trace(folder, "--json", "--", "train.py", "--steps")

    assert ended.returncode == 1
    assert "fp32-promoted-before-kernel" in {found["id"] for found in json.loads(ended.stdout)["findings"]}


ENDING = """
import sys
import torch
import torch.nn.functional as F

x = torch.randn(1, 2, 4, 8, device="cuda")
F.scaled_dot_product_attention(x, x, x)
"""


@pytest.mark.parametrize(
    ("last", "status", "says"),
    [
        ("sys.exit()", 0, "clean  scaled_dot_product_attention"),
        ("sys.exit(0)", 0, "nothing wrong found"),
        ("sys.exit('no data')", 3, "the program called exit('no data')"),
        ("import os; os._exit(5)", 3, "the traced run ended with status 5; when it was last heard of"),
        ("import os; os.abort()", 3, "the traced run was ended by SIGABRT; when it was last heard of"),
        ("import time; time.sleep(1000)", 3, "the traced run took longer than 20 s; when it was last heard of"),
        ("raise KeyError('x')", 3, "model raised after"),
    ],
)
def test_how_a_program_ends(folder: Path, last: str, status: int, says: str) -> None:
    """A program that ends well is finished; of any other it is told how it ended and what was seen until then."""
    (folder / "ending.py").write_text(ENDING + last + "\n")
    ended = trace(folder, "--timeout", "20" if "sleep" in last else "60", "--", "ending.py")

    assert (ended.returncode, ended.stderr) == (status, "")
    assert says in ended.stdout
    assert "clean  scaled_dot_product_attention" in ended.stdout
    assert ("No verdict" in ended.stdout) == (status == 3)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("", 3, "No verdict: no attention call was seen."),
        (
            "with torch.autocast('cuda', torch.bfloat16):\n    F.scaled_dot_product_attention(x, x @ x.mT @ x, x)\n",
            0,
            "nothing that fails here",
        ),
        (
            "import flash_attn\nh = x.half().transpose(1, 2)\nflash_attn.flash_attn_func(h, h, h)\n",
            0,
            "found with a stand-in for what is not installed here",
        ),
        ("import flash_attn\nF.scaled_dot_product_attention(x, x, x)\n", 0, "nothing wrong found. Clean means: "),
    ],
)
def test_what_a_run_without_a_finding_comes_to(folder: Path, body: str, status: int, says: str) -> None:
    """No attention call is no clean bill, and neither is what was cast back or stood in for said to be nothing."""
    head = "import torch\nimport torch.nn.functional as F\nx = torch.randn(1, 2, 4, 8, device='cuda')\n"
    (folder / "quiet.py").write_text(head + body)
    ended = trace(folder, "--", "quiet.py")

    assert (ended.returncode, ended.stderr) == (status, "")
    assert says in " ".join(ended.stdout.split()) + "\n"
    assert ("stood in for" in ended.stdout) == ("stand-in" in says)


def test_a_factory_that_raises_is_named(folder: Path) -> None:
    """What was to be traced stands in the first line even where nothing came of it."""
    ended = trace(folder, "model.py:mended", "--arg", "nope=1")

    assert ended.returncode == 3
    assert "traced factory model.py:mended" in ended.stdout


def test_arguments_that_a_program_refuses(folder: Path) -> None:
    """What the program itself said to its arguments is passed on."""
    (folder / "strict.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    ended = trace(folder, "--", "strict.py", "--nope")

    assert ended.returncode == 3
    assert "its last words: strict.py: error: unrecognized arguments: --nope" in " ".join(ended.stdout.split())


def test_sdpa_on_another_gpu(folder: Path) -> None:
    """A call that falls to math on that GPU says so and why the others refuse; in JSON as a fact too."""
    (folder / "falls.py").write_text(
        "import torch\nimport torch.nn.functional as F\n\n\ndef build():\n"
        "    q = torch.randn(1, 2, 8, 16, dtype=torch.bfloat16)\n"
        "    return lambda: F.scaled_dot_product_attention(q, q, q)\n"
    )
    said = trace(folder, "falls.py:build", "--gpu", "t4").stdout
    report = json.loads(trace(folder, "falls.py:build", "--gpu", "t4", "--json").stdout)

    assert "SDPA takes math on" in said
    assert "not flash: Flash attention only supports gpu architectures in the range [sm80" in said
    assert report["facts"]["attention.0.backend"]["value"] == "math"
    assert len(report["facts"]["attention.0.backend_refused"]["value"]) == 3
    assert "SDPA takes" not in trace(folder, "falls.py:build", "--gpu", "a100").stdout


MASKED = """
import torch
import torch.nn.functional as F


def build(length=512, turned=True):
    q = torch.randn(2, 8, length, 64, dtype=torch.bfloat16)
    mask = torch.zeros(2, 8, length, length, dtype=torch.bfloat16)
    return lambda: F.scaled_dot_product_attention(q, q, q, mask.transpose(-1, -2) if turned else mask)
"""


def test_sdpa_on_math_is_a_finding(folder: Path) -> None:
    """At a length where it costs: which backend, what it costs, what would help. At a smoke test's it is told only."""
    (folder / "masked.py").write_text(MASKED)
    report = json.loads(trace(folder, "masked.py:build", "--json").stdout)
    small = trace(folder, "masked.py:build", "--arg", "length=16")

    (found,) = report["findings"]
    assert (found["id"], found["severity"], report["summary"]["exit_status"]) == ("sdpa-falls-to-math", "warning", 0)
    assert "16 MiB of scores" in found["title"]
    assert "attn_mask.contiguous() (cudnn)" in json.dumps(found["remedies"])
    assert "sdpa-falls-to-math" not in small.stdout
    assert "no finding, the scores of these lengths (16 and 16) are small" in " ".join(small.stdout.split())
    assert "nothing wrong found." in trace(folder, "masked.py:build", "--arg", "turned=False").stdout


def test_clean_says_of_what(folder: Path) -> None:
    """In text, markdown and JSON: what was judged, and what nobody looked at; and that the GPU was not there."""
    said = "dtypes and backends; values, masks and packing were not examined"
    asked = ("model.py:mended", "--autocast", "fp16", "--gpu", "a100")
    report = json.loads(once(folder, *asked, "--json").stdout)

    assert report["trace"]["judged"] == said
    assert report["trace"]["rules"]["gpu"]["assumed"] is True
    for form in ("text", "markdown"):
        assert said in " ".join(trace(folder, *asked, "--format", form).stdout.split())
    broken = once(folder, "model.py:broken", "--autocast", "fp16", "--json").stdout
    assert json.loads(broken)["trace"]["judged"] is None


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([], 2),
        (["nowhere.py:build"], 2),
        (["model.py:nothing"], 2),
        (["no_such_module:build"], 2),
        (["gone.py"], 2),
        (["model.py:broken", "--dtype", "int8"], 2),
        (["model.py:broken", "--gpu", "h1000"], 2),
        (["model.py:broken", "--rules", "none"], 2),
        (["model.py:broken", "and:more"], 2),
        (["--hf", "nowhere/config.json"], 2),
        (["model.py:raising"], 3),
    ],
)
def test_what_cannot_be_traced(folder: Path, arguments: list[str], status: int) -> None:
    """One clear message and the right status, never a traceback of ours."""
    ended = trace(folder, *arguments)

    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert (ended.stderr or ended.stdout).strip()


def test_the_forms_of_calls_are_kept(folder: Path) -> None:
    """--record: shapes, strides, dtypes and flags of each form of call, once, with its count and line; no values."""
    (folder / "calls.py").write_text(
        "import torch, torch.nn.functional as F\n"
        "def build():\n"
        "    def run():\n"
        "        x = torch.randn(2, 8, 3, 4, 16, dtype=torch.bfloat16, requires_grad=True)\n"
        "        for _ in range(3):\n"
        "            q, k, v = x.permute(2, 0, 3, 1, 4)\n"
        "            F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
        "        with torch.no_grad():\n"
        "            F.scaled_dot_product_attention(q[:, :, :1], k, v, scale=0.5)\n"
        "    return run\n"
    )
    done = run_here("trace", "calls.py:build", "--record", "kept.json", "--gpu", "h100", cwd=folder)
    kept = json.loads((folder / "kept.json").read_text())["calls"]

    assert done.returncode == 0, done.stderr
    assert [(call["calls"], call["shapes"]["q"], call["trains"], call["flags"]["causal"]) for call in kept] == [
        (3, [2, 4, 8, 16], True, True),
        (1, [2, 4, 1, 16], False, False),
    ]
    assert kept[0]["strides"]["q"] == [1536, 16, 192, 1]
    assert kept[1]["flags"]["scale"] == 0.5
    assert kept[0]["place"].endswith("calls.py:7")
