"""What is offered where there is no plan: no command of it moves torch, and what is said of it is true."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator

import pytest

from attn_doctor.model.stack import PlannedNode, StackAnswer
from attn_doctor.recipes.data.stack_packages import stack_package
from attn_doctor.report import picker
from attn_doctor.report.renderer import PLAN, Manner
from attn_doctor.stack.candidates import Limits, spots
from attn_doctor.stack.from_source import compiled
from attn_doctor.stack.resolver import CannotResolve, Resolved
from attn_doctor.stack.wants import read_wants
from attn_doctor.workflows import plan as planning
from attn_doctor.workflows.plan import PlanRequest, plan

PACKAGES = (
    "flash-attn", "flash-attn-3", "flash-attn-4", "xformers", "vllm", "flash-linear-attention", "transformer-engine",
    "sageattention", "bitsandbytes", "causal-conv1d", "mamba-ssm",
)  # fmt: skip
NODES = (("b200", "550"), ("h100", "580"), ("v100", "535"))
FORMATS = ("text", "requirements", "uv", "docker", "conda")


def asked(*wants: str, gpu: str = "h100", driver: str | None = "580.95", python: str = "3.12") -> StackAnswer:
    return plan(PlanRequest(wants=wants, gpu=gpu, driver=driver, python=python, glibc="2.35", offline=True))


def commands(answer: StackAnswer) -> Iterator[str]:
    """Every line with an installer in it, of every format."""
    for form in FORMATS:
        stream = io.StringIO()
        picker.pick(PLAN, form).write(answer, stream, Manner(verbose=True))
        for line in stream.getvalue().splitlines():
            if "pip install" in line:
                yield line.removeprefix("RUN ").strip()
    for one in answer.alternatives:
        yield from one.commands


def moves_torch(command: str) -> bool:
    """Nothing in it keeps the installer from taking another torch."""
    words = shlex.split(command)
    return "--no-deps" not in words and not any(one.startswith("torch==") for one in words)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_command_moves_torch(package: str) -> None:
    """For whatever GPU, driver and torch; and what is said to be compiled is: that release, from its source."""
    row = stack_package(package)
    compiled = 0
    wanted = "xformers==0.0.33.post2" if package == "xformers" else package
    for gpu, driver in NODES:
        for wants in ((wanted,), ("torch==2.11.*", wanted), ("torch==2.6.0", wanted, "bitsandbytes")):
            answer = asked(*dict.fromkeys(wants), gpu=gpu, driver=driver)
            lines = list(commands(answer))
            assert [one for one in lines if moves_torch(one)] == []
            for one in answer.alternatives:
                if one.title.startswith(f"compile {package} ") and one.commands:
                    compiled += 1
                    assert row is not None
                    assert row.build is not None
                    words = shlex.split(one.commands[-1])
                    assert words[words.index("--no-binary") + 1] == row.build.source
                    assert {"--no-build-isolation", "--no-cache-dir"} <= set(words)
                    assert words[-1].partition("==")[0].partition("[")[0] == package
                    assert words[-1].partition("==")[2]
                    assert any(word.startswith("MAX_JOBS=") for word in words) or "MAX_JOBS" not in one.needs
    assert compiled or row is None or row.build is None or package in ("transformer-engine", "flash-attn-3")


def test_what_no_registry_holds_is_not_asked_of_one() -> None:
    """flash-attn-3 lies in a folder of a checkout: a package of its name would be somebody else's."""
    found = [one for one in asked("torch==2.8.0", "flash-attn-3").alternatives if one.title.startswith("compile")]

    assert found[0].commands == ()
    assert "hopper" in found[0].title


def test_what_its_source_refuses_is_not_compiled() -> None:
    """xformers 0.0.35 asks for torch 2.10, wheel and source alike: with an older torch compiling ends in a refusal."""
    limits, node = Limits(), PlannedNode(gpu="l4", capability="8.9", driver="580.95", python="3.12")
    row = stack_package("xformers")
    assert row is not None
    assert row.build is not None

    def titles(release: str) -> list[str]:
        torch, want = read_wants(("torch==2.9.1", f"xformers=={release}"))
        can = [one for one in spots(node, limits)[0] if one.torch == "2.9.1"]
        return [one.title for one in compiled(want, row, row.build, (torch,), can, node, None, lambda want: "")]

    assert titles("0.0.35") == []
    assert titles("0.0.32.post2") == ["compile xformers 0.0.32.post2 for torch 2.9.1 for CUDA 12.8"]


def test_the_nearest_that_fulfils_all_the_rest() -> None:
    """torch's pin alone, or the other's, and the plan for it."""
    answer = asked("torch==2.11.*", "flash-attn", "xformers==0.0.32.post2")
    first = next(one for one in answer.alternatives if one.ends is None)

    assert first.gives_up == "torch==2.11.*"
    assert first.plan is not None
    assert first.plan.torch == "2.9.1"  # offline no resolver says that xformers 0.0.32 asks for 2.8
    assert answer.dead_end == ""


def test_a_pin_that_is_kept_where_another_goes() -> None:
    """torch stays, and another release is taken: each is said to give up what it does."""
    answer = asked("torch==2.9.1", "xformers==0.0.28", "vllm==0.33.0")

    assert all(one.gives_up for one in answer.alternatives if one.ends is None)
    assert {"torch==2.9.1"} != {one.gives_up for one in answer.alternatives if one.ends is None}


def test_where_nothing_near_is_found_that_is_said() -> None:
    """No release of flash-attn 2 runs on a T4, whatever the torch."""
    answer = asked("torch==2.11.*", "flash-attn", gpu="t4")

    assert answer.dead_end.startswith("No other release of torch")


def test_each_conflict_has_its_own() -> None:
    """Two conflicts: what ends one stands with it, and no alternative is lost."""
    answer = asked("torch==2.11.*", "flash-attn", "xformers==0.0.32.post2")
    wants = {one.wants for one in answer.clashes}

    assert len(wants) == 2
    assert {one.ends for one in answer.alternatives} == {*wants, None}


@pytest.mark.parametrize(
    ("gpu", "driver", "drivers"),
    [
        ("b200", "550", "driver 570 or later"),
        ("rtx5090", "565.57.01", "driver 570 or later"),
        ("b300", "570.86", "driver 575 or later"),
        ("v100", "590.44.01", "driver 580 or earlier"),
        ("b200", "570", ""),
        ("h100", "535.183", ""),
        ("v100", "580.95.05", ""),
        ("b200", None, ""),
    ],
)
def test_a_driver_that_does_not_know_the_gpu(gpu: str, driver: str | None, drivers: str) -> None:
    """Said first, whatever is wanted; the plan for a driver that does know it is offered."""
    answer = asked("torch", gpu=gpu, driver=driver)

    if not drivers:
        assert answer.plans
        return
    assert (answer.plans, answer.clashes[0].wants) == ((), ())
    assert drivers in answer.clashes[0].words
    assert answer.alternatives[0].gives_up == f"driver {driver}"
    assert drivers in answer.alternatives[0].title


def test_a_branch_stands_for_its_releases() -> None:
    """CUDA 13 needs 580.65.06, and a driver that is named 580 is one of that branch."""
    assert asked("torch==2.13.0", driver="580").plans[0].build == "cu130"
    assert asked("torch==2.13.0", driver="580.10").plans[0].build != "cu130"


def text(answer: StackAnswer) -> list[str]:
    stream = io.StringIO()
    picker.pick(PLAN, "text").write(answer, stream, Manner())
    return stream.getvalue().splitlines()


def test_the_verdict_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the wants; nothing is wider than the terminal but commands and addresses."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = text(asked("torch==2.11.*", "flash-attn", "xformers==0.0.32.post2", gpu="b200", driver="550"))

    assert lines[0] == "No plan: nothing fulfils every want on this node."
    assert lines[1] == "  wants    torch==2.11.*, flash-attn, xformers==0.0.32.post2"
    assert [one for one in lines if len(one) > 80 and " -m pip " not in one and "://" not in one] == []


class Index:
    """Has xformers 0.0.32.post2, and any other release that is asked for."""

    words = "an index"

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        if "xformers==0.0.32" in requirements:
            raise CannotResolve("no", about="Because there is no version of xformers==0.0.32 and", is_conflict=True)
        versions = {"torch": "2.8.0", "xformers": "0.0.32.post2"}
        names = [one.partition("=")[0].partition("<")[0] for one in requirements]
        return tuple(Resolved(name=name, version=versions.get(name, "1.0")) for name in names)


def test_a_release_that_no_index_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a conflict by itself; compiling it is not offered, the corrected release is."""
    monkeypatch.setattr(planning, "resolver_here", lambda *what, **more: Index())
    monkeypatch.setattr(planning.channels, "_heads", lambda addresses: dict.fromkeys(addresses, "not asked"))
    wants = ("torch==2.11.*", "flash-attn", "xformers==0.0.32")

    answer = plan(PlanRequest(wants=wants, gpu="b200", driver="570.86", python="3.12", glibc="2.35"))

    absent = next(one for one in answer.clashes if one.unpublished)
    assert (absent.wants, absent.words.partition("; ")[2]) == (("xformers==0.0.32",), "it has 0.0.32.post2")
    assert not any(one.title.startswith("compile xformers") for one in answer.alternatives)
    near = [one for one in answer.alternatives if one.ends is None]
    assert [(one.gives_up, one.plan.torch if one.plan else "") for one in near] == [
        ("torch==2.11.* and xformers==0.0.32", "2.8.0")
    ]
