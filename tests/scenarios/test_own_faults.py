"""A bug planted in one part of attn-doctor: the report comes all the same, and says what is missing and where the log
is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment

Make = Callable[..., Environment]

#: Planted as sitecustomize: waits for a module to be loaded and breaks one function of it.
PLANT = """
import importlib.util, sys

class Plant:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            owner = module
            *owners, function = {function!r}.split(".")
            for part in owners:
                owner = getattr(owner, part)
            real = getattr(owner, function)

            def broken(*arguments, **options):
                if {only!r} in repr([one for one in arguments if type(one).__name__ != "Gathered"]):
                    raise ZeroDivisionError("planted")
                return real(*arguments, **options)

            setattr(owner, function, broken)

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Plant())
"""


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., dict[str, str | None]]:
    """Variables under which one function of attn-doctor raises."""

    def make(module: str, function: str, only: str = "") -> dict[str, str | None]:
        folder = tmp_path / "planted"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(PLANT.format(module=module, function=function, only=only))
        (tmp_path / "logs").mkdir()
        return {"PYTHONPATH": str(folder), "TMPDIR": str(tmp_path / "logs")}

    return make


def test_a_probe(doctor: Doctor, environment: Make, plant: Callable[..., dict[str, str | None]]) -> None:
    """The others have told; the status is as judged, and 3 where open questions count."""
    env, changes = environment(), plant("attn_doctor.probe.host.node", "probe")
    env.package("x-transformers", "1.30.1", "")

    run = doctor("check", "--quick", "--json", "--python", env.python, env=changes)
    strict = doctor("check", "--quick", "--strict", "--json", "--python", env.python, env=changes)
    shown = doctor("check", "--quick", "--python", env.python, env=changes)

    (fault,) = run.report["own_faults"]
    assert (run.status, strict.status) == (0, 3)
    assert strict.report["summary"]["exit_status"] == 3
    assert run.fact("package.x-transformers.version") == "1.30.1"
    said = f"attn-doctor's own {fault['part']} failed: {fault['error']}; log {fault['log']}"
    assert run.fact("node.os") == f"(unknown) {said}"
    assert "ZeroDivisionError: planted" in Path(fault["log"]).read_text()
    assert 'attn-doctor\'s own probe "node" failed' in shown.stdout
    assert 'attn-doctor: its own probe "node" failed: a bug of attn-doctor' in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("form", ["text", "markdown", "summary"])
def test_a_section_of_the_report(
    doctor: Doctor, environment: Make, plant: Callable[..., dict[str, str | None]], form: str
) -> None:
    """What is written before and behind the finding stands."""
    module = {"text": "attn_doctor.report.terminal.brief", "markdown": "attn_doctor.report.renderers.markdown"}.get(
        form, "attn_doctor.report.renderers.summary"
    )
    function = "Page.finding" if form == "text" else "_finding"
    env = environment()
    env.package("x-transformers", "1.30.1", "")
    changes = plant(module, function)

    run = doctor("check", "--quick", "--format", form, "--python", env.python, env=changes)
    strict = doctor("check", "--quick", "--strict", "--format", form, "--python", env.python, env=changes)

    assert str(env.folder if form == "text" else env.python) in run.stdout
    assert "ZeroDivisionError: planted" in " ".join(run.stdout.split())
    assert (run.status, strict.status) == (0, 3)


def test_one_node_of_a_fleet(
    doctor: Doctor, environment: Make, plant: Callable[..., dict[str, str | None]], tmp_path: Path
) -> None:
    """The other nodes are judged; the one whose report cannot be taken in is unreadable, with the log."""
    env, folder = environment(), tmp_path / "reports"
    folder.mkdir()
    written = json.loads(doctor("check", "--quick", "--json", "--python", env.python).stdout)
    for name in ("n1", "n2", "n3"):
        written["node"]["name"] = name
        (folder / f"{name}.json").write_text(json.dumps(written))

    for number, (module, function) in enumerate(
        (("attn_doctor.fleet.gather", "Gathered._take"), ("attn_doctor.fleet.extract", "_read"))
    ):
        (tmp_path / str(number)).mkdir()
        changes = plant(module, function, "'n2'") if number == 0 else _again(tmp_path, module, function)
        run = doctor("fleet", "merge", folder, "--json", env=changes)

        told = json.loads(run.stdout)
        assert run.status == 3
        assert [one["node"] for one in told["unreadable"]] == ["n2"]
        assert "attn-doctor's own" in told["unreadable"][0]["reason"]
        assert "a bug of attn-doctor" in run.stderr


def _again(tmp_path: Path, module: str, function: str) -> dict[str, str | None]:
    (tmp_path / "planted" / "sitecustomize.py").write_text(PLANT.format(module=module, function=function, only="'n2'"))
    return {"PYTHONPATH": str(tmp_path / "planted"), "TMPDIR": str(tmp_path / "logs")}


@pytest.mark.parametrize(
    ("module", "function"),
    [("attn_doctor.diagnose.log.match", "Known.match"), ("attn_doctor.diagnose.log.causes", "weigh")],
)
def test_one_pattern_of_a_log(
    doctor: Doctor, plant: Callable[..., dict[str, str | None]], tmp_path: Path, module: str, function: str
) -> None:
    """explain reads on, and says that something of its own failed."""
    log = tmp_path / "job.log"
    log.write_text(
        'Traceback (most recent call last):\n  File "/t/train.py", line 3, in <module>\n    f(q)\n'
        "RuntimeError: FlashAttention only support fp16 and bf16 data type\n"
    )

    run = doctor("explain", log, env=plant(module, function))

    assert run.status == 0
    assert "attn-doctor's own" in run.stdout
    assert "a bug of attn-doctor" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_configuration(
    doctor: Doctor, environment: Make, plant: Callable[..., dict[str, str | None]], tmp_path: Path
) -> None:
    """Of two files one is still read."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("stage: sft\nflash_attn: fa2\nfinetuning_type: lora\nbf16: true\n")
    changes = plant("attn_doctor.probe.configs.configs", "_note", "one.yaml")

    run = doctor(
        "check", "--quick", "--json", "--python", environment().python,
        "--config", tmp_path / "one.yaml", "--config", tmp_path / "two.yaml", env=changes,
    )  # fmt: skip

    assert run.fact(f"config.{tmp_path / 'two.yaml'}.framework") == "llamafactory"
    assert "attn-doctor's own reading of" in run.fact(f"config.{tmp_path / 'one.yaml'}.framework")


def test_a_bundled_recipe(doctor: Doctor, environment: Make, plant: Callable[..., dict[str, str | None]]) -> None:
    """The shelf is read without it."""
    changes = plant("attn_doctor.recipes.build", "build", "'id': 'triton-missing'")

    run = doctor("check", "--quick", "--json", "--python", environment().python, env=changes)

    assert run.status == 0
    assert len(run.report["own_faults"]) == 1
