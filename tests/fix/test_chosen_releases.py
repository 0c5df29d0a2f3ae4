"""The releases of a package cure are chosen as those of a plan are: what is at fault is left out, and asked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.model.stack import PlannedNode
from attn_doctor.planning.chosen_releases import choose_releases
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.torch_releases import NoBuild, build_for, releases
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.stack.candidates import Limits, spots
from attn_doctor.stack.proof.prover import Prover


@pytest.fixture(scope="module")
def recipes() -> tuple[Recipe, ...]:
    return shelf.bundled()


def environment(gpu: str, **versions: str) -> FactSet:
    """An environment with torch 2.11.0 for CUDA 13.0 and these packages."""
    known = {
        "torch.version": "2.11.0",
        "torch.cuda": "13.0",
        "package.torch.version": "2.11.0",
        "listed.package": len(versions) + 1,
        "gpu.0.name": "the GPU",
        "gpu.0.compute_capability": gpu,
        "driver.version": "580.95.05",
        "python.version": "3.12.3",
        "libc.version": "2.35",
        "node.machine": "x86_64",
        **{f"package.{name.replace('_', '-')}.version": version for name, version in versions.items()},
    }
    every = [Fact(name=FactName.parse(name), state=Known(value), how="test") for name, value in known.items()]
    every.append(Fact(name=FactName.parse("torch.hip"), state=Absent(), how="test"))
    return derive(FactSet(every))


class Installer:
    """Gives one answer after another, and keeps what it was asked."""

    def __init__(self, *answers: Sequence[PackageChange]) -> None:
        self.answers = list(answers)
        self.limits: list[tuple[str, ...]] = []

    def __call__(self, request: InstallRequest) -> Install:
        self.limits.append(request.limits)
        if not self.answers:
            raise Refused("no releases go together")
        return Install(
            installer="uv", requirements=request.requirements, no_deps=False, no_cache=False, reinstall=False,
            changes=tuple(self.answers.pop(0)),
        )  # fmt: skip


def change(name: str, after: str, **more: str) -> PackageChange:
    return PackageChange(name=name, before=None, after=after, **more)


@pytest.fixture
def chosen(recipes: tuple[Recipe, ...], tmp_path: Path) -> Callable[..., Install]:
    def choose(requirement: str, facts: FactSet, installer: Installer) -> Install:
        return choose_releases(
            InstallRequest(requirements=(requirement,)),
            facts,
            judge(facts, recipes),
            ask=installer,
            judged=lambda these: judge(these, recipes),
            prover=Prover((), tmp_path, opens=False),
        )

    return choose


def test_a_release_that_check_would_complain_of_gives_way(chosen: Callable[..., Install]) -> None:
    """triton 3.6.0 computes wrong gradients beside flash-linear-attention on a Hopper; another one will do."""
    facts = environment("9.0", flash_linear_attention="0.6.0", fla_core="0.6.0")
    installer = Installer([change("triton", "3.6.0")], [change("triton", "3.7.1")])

    assert chosen("triton>=3.5", facts, installer).changes[0].after == "3.7.1"
    assert installer.limits == [(), ("triton!=3.6.0",)]


def test_what_is_at_fault_is_named_when_nothing_else_will_do(chosen: Callable[..., Install]) -> None:
    facts = environment("9.0", flash_linear_attention="0.6.0", fla_core="0.6.0")

    with pytest.raises(Refused, match=r"other trouble.*triton 3\.6\.0"):
        chosen("triton>=3.5", facts, Installer([change("triton", "3.6.0")]))
    installer = Installer([change("triton", "3.6.0")], [change("triton", "3.7.1")])
    with pytest.raises(Refused, match=r"triton 3\.6\.0"):
        chosen("triton==3.6.0", facts, installer)
    assert len(installer.limits) == 1, "a fix that names one release is not asked for another"


def test_releases_that_do_not_take_the_gpu_are_no_choice(chosen: Callable[..., Install]) -> None:
    installer = Installer([change("xformers", "0.0.30")])
    chosen("xformers", environment("7.0"), installer)
    assert installer.limits == [("xformers<0.0.31",)]

    with pytest.raises(Refused, match=r"flash-attn needs compute capability 8\.0 or later; the GPU has 7\.5"):
        chosen("flash-attn", environment("7.5"), Installer())


def test_a_wheel_whose_symbols_that_torch_lacks_is_no_choice(chosen: Callable[..., Install]) -> None:
    """By its SHA-256, before anything is downloaded."""
    table = json.loads((bundled_folder() / "known_wheels.json").read_text())
    bad = next(key for key, row in table["wheels"].items() if row["file"].startswith("xformers-0.0.32.post2"))
    file = table["wheels"][bad]["file"]
    installer = Installer([change("xformers", "0.0.32.post2", source=file, sha256=bad)], [change("xformers", "0.0.35")])

    assert chosen("xformers", environment("9.0"), installer).changes[0].after == "0.0.35"
    assert installer.limits[1] == ("xformers!=0.0.32.post2",)


def test_a_torch_without_code_for_the_gpu_is_no_choice(chosen: Callable[..., Install]) -> None:
    """torch 2.13.0 for CUDA 13.0 holds nothing for a V100, which its metadata does not say."""
    runtime = change("nvidia-cuda-runtime", "13.0.96")
    installer = Installer([change("torch", "2.13.0"), runtime], [change("torch", "2.10.0+cu128")])

    assert chosen("torch>=2.10", environment("7.0"), installer).changes[0].after == "2.10.0+cu128"


GPUS = ("5.2", "6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")


@given(
    torch=st.sampled_from(sorted(one for one in releases() if not one.startswith(("1.", "2.0", "2.1", "2.2", "2.3")))),
    gpu=st.sampled_from(GPUS),
    driver=st.sampled_from(("450.80", "470.1", "525.60.13", "535.183", "570.86", "580.65.06", "590.1")),
    machine=st.sampled_from(("x86_64", "aarch64")),
)
def test_the_build_that_a_cure_names_is_one_that_a_plan_would_take(
    torch: str, gpu: str, driver: str, machine: str
) -> None:
    """And where `check` knows none, no plan has one."""
    can = {
        (spot.torch, spot.cuda)
        for python in ("3.9", "3.10", "3.12", "3.15")
        for spot in spots(
            PlannedNode(gpu="it", capability=gpu, driver=driver, python=python, machine=machine), Limits()
        )[0]
    }
    try:
        build = build_for(torch=torch, driver=driver, gpus=[gpu], machine=machine)
    except NoBuild:
        assert not can
        return
    assert (build.torch, build.cuda) in can or build.torch.startswith(("1.", "2.0", "2.1", "2.2", "2.3"))


def test_a_build_is_not_later_than_the_drivers_cuda_where_there_is_another() -> None:
    """PTX of a later minor does not load under the driver; without a driver's CUDA the newest is taken."""
    newest = build_for(torch=None, driver="581.57", gpus=["12.0"])
    told = build_for(torch=newest.torch, driver="581.57", gpus=["12.0"], driver_cuda="13.0")
    assert (newest.torch, told.torch, told.cuda) == (told.torch, newest.torch, "13.0")
    assert newest.cuda > told.cuda
    assert build_for(torch=newest.torch, driver="581.57", gpus=["12.0"], driver_cuda="13.9") == newest
