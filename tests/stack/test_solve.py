"""Plans, with a resolver that answers from a table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement

from attn_doctor.model.stack import Channel, Evidence, PlannedNode
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.torch_releases import index_of
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.stack.candidates import Limits, piece, spots
from attn_doctor.stack.clash import clashes
from attn_doctor.stack.commands import install_arguments
from attn_doctor.stack.resolver import CannotResolve, Resolved
from attn_doctor.stack.solve import solve
from attn_doctor.stack.verdict import faults
from attn_doctor.stack.wants import read_wants

H100 = PlannedNode(gpu="h100", capability="9.0", driver="580.95", python="3.12")
OLD_DRIVER = PlannedNode(gpu="b200", capability="10.0", driver="535.1")
RELEASES = {
    "torch": ["2.15.0", "2.13.0", "2.11.0", "2.9.1", "2.8.0"],
    "xformers": ["0.0.35", "0.0.33.post2"],
    "flash-linear-attention": ["0.6.0", "0.5.0"],
    "einops": ["0.8.2"],
}
TRITON = {"2.15.0": "3.9.0", "2.13.0": "3.7.1", "2.11.0": "3.6.0", "2.9.1": "3.5.1", "2.8.0": "3.4.0"}


class Table:
    """Takes the newest release that every requirement and constraint accepts."""

    words = "a table"

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        self.asked.append((*requirements, *constraints))
        every = [Requirement(one) for one in (*requirements, *constraints)]
        found = []
        for name in {Requirement(one).name for one in requirements}:
            asked = [one.specifier for one in every if one.name == name]
            fitting = [one for one in RELEASES[name] if all(each.contains(one) for each in asked)]
            if name == "torch":
                held = [one.specifier for one in every if one.name == "triton"]
                fitting = [one for one in fitting if all(each.contains(TRITON[one]) for each in held)]
            if not fitting:
                raise CannotResolve("no release", about=f"{name} {asked}", is_conflict=True)
            found.append(Resolved(name=name, version=fitting[0], file=f"{name}-{fitting[0]}-py3-none-any.whl"))
        torch = next(one.version for one in found if one.name == "torch")
        return (*found, Resolved(name="triton", version=TRITON[torch]))


def planned(wants: Sequence[str], node: PlannedNode = H100, limits: Limits | None = None) -> list[str]:
    def verdict(*what: object) -> dict[str, str]:
        return {}

    solved = solve(read_wants(wants), node, limits or Limits(), Table(), verdict)
    return [f"{one.torch} {one.build} {one.channel.value}" for one in solved.plans]


def test_the_registry_comes_first() -> None:
    """Of the newest release that it has, then torch's own indexes."""
    assert planned(["torch"])[0] == "2.15.0 cu132 registry"


def test_a_want_is_never_dropped() -> None:
    """torch 2.13 and flash-attn have no common plan; each alone has one."""
    assert planned(["torch==2.13.0", "flash-attn"]) == []
    assert planned(["flash-attn"])[0] == "2.9.1 cu128 registry"


def test_files_of_authors_stand_in_the_requirements() -> None:
    """With what the resolver cannot read in them."""
    solved = solve(read_wants(["flash-attn"]), H100, Limits(), Table(), lambda *_: {})
    first = solved.plans[0]
    release = next(one for one in first.releases if one.name == "flash-attn")

    assert any(one.startswith("flash-attn @ https://") for one in first.requirements)
    assert "einops" in first.requirements
    assert (release.channel, release.evidence) == (Channel.AUTHORS, Evidence.BY_NAME)


def test_what_the_recipes_find_fault_with_is_not_proposed(recipes: tuple[Recipe, ...]) -> None:
    """Triton 3.4 to 3.6 compute wrong gradients of fla's layers on Hopper."""
    table = Table()
    wants = read_wants(["torch<2.13", "fla"])

    solved = solve(wants, H100, Limits(), table, lambda *what: faults(*what, recipes))  # type: ignore[arg-type]

    assert solved.plans == ()
    assert "triton-hopper" in solved.refused[0]
    assert len(table.asked) > 1


def test_a_plan_without_fault_beside_it(recipes: tuple[Recipe, ...]) -> None:
    """The newest has none."""
    solved = solve(read_wants(["fla"]), H100, Limits(), Table(), lambda *what: faults(*what, recipes))  # type: ignore[arg-type]

    assert solved.plans[0].torch == "2.15.0"


def test_without_a_resolver_the_tables_answer() -> None:
    """The wants alone, and nothing is said of the rest."""
    solved = solve(read_wants(["flash-attn"]), H100, Limits(), None, lambda *_: {})

    assert solved.plans[0].torch == "2.9.1"
    assert [one.name for one in solved.plans[0].releases] == ["torch", "flash-attn"]


@pytest.mark.parametrize(
    ("wants", "node", "about", "says"),
    [
        (["flash-attn"], PlannedNode(gpu="t4", capability="7.5"), ("flash-attn",), "8.0 or later; t4 has 7.5"),
        (["torch==2.13.*", "flash-attn", "einops"], H100, ("flash-attn", "torch==2.13.*"), "none is for 2.13"),
        (["torch==2.8.0"], PlannedNode(python="3.14"), ("torch==2.8.0",), "3.9 to 3.13"),
        (["torch"], PlannedNode(gpu="MI300X", amd="gfx942"), ("torch",), "AMD"),
        (["torch==2.14.0"], OLD_DRIVER, ("torch==2.14.0",), "580.65.06"),
        (["torch==9.9"], H100, ("torch==9.9",), "no release of torch"),
    ],
)  # fmt: skip
def test_the_smallest_conflict(wants: list[str], node: PlannedNode, about: tuple[str, ...], says: str) -> None:
    """Only the wants that clash, and why."""
    able, unable = spots(node, Limits())

    found = clashes(read_wants(wants), node, able, unable, lambda want, spot: piece(want, spot, node))

    assert [set(one.wants) for one in found] == [set(about)]
    assert says in found[0].words


def test_no_conflict_where_there_is_a_plan() -> None:
    """Nothing is found in the wants that go together."""
    able, unable = spots(H100, Limits())

    assert not clashes(read_wants(["flash-attn"]), H100, able, unable, lambda want, spot: piece(want, spot, H100))


@pytest.fixture(scope="module")
def recipes() -> tuple[Recipe, ...]:
    return shelf.bundled()


def test_what_is_brought_and_released_with_torch_comes_from_its_index() -> None:
    """A torchvision that a want brings is for the registry's CUDA; beside another build of torch it is taken apart."""

    class Bringing(Table):
        def resolve(
            self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
        ) -> tuple[Resolved, ...]:
            vision = Resolved(name="torchvision", version="0.28.0", file="torchvision-0.28.0-cp312-cp312-linux.whl")
            return (*super().resolve(requirements, constraints, node), vision)

    solved = solve(read_wants(["torch==2.13.0", "einops"]), H100, Limits(build="cu126"), Bringing(), lambda *_: {})
    lines = install_arguments(solved.plans[0])

    assert lines[0] == ["torch==2.13.0+cu126", "--index-url", index_of("cu126")]
    assert lines[1] == ["torchvision==0.28.0", "--no-deps", "--index-url", index_of("cu126")]
    assert lines[2] == ["torch==2.13.0+cu126", "einops==0.8.2"]
