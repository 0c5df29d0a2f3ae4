"""What a plan is asked for: the node as named, as reported, or as this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.model.stack import Channel, PlannedNode, PlannedRelease, StackPlan
from attn_doctor.stack.commands import install_arguments
from attn_doctor.workflows.plan import PlanRequest, plan, planned_node
from attn_doctor.workflows.plan_apply import refuse_present

H200 = Path(__file__).parent.parent / "nodes" / "h200-torch2.11.json"


def test_the_node_of_a_report() -> None:
    """Its GPU, driver, Python and C library; what is named outranks it."""
    node = planned_node(PlanRequest(from_report=H200, driver="535.1"))

    assert (node.capability, node.driver, node.python, node.glibc) == ("9.0", "535.1", "3.12", "2.39")
    assert node.assumed == ()


def test_what_nobody_names_is_this_machines() -> None:
    """And is said."""
    node = planned_node(PlanRequest(gpu="h100"))

    assert len(node.assumed) == 2
    assert node.words.startswith("h100 (9.0), driver not named")


@pytest.mark.parametrize(
    "fields",
    [
        {"python": "three"},
        {"driver": "new"},
        {"glibc": "2"},
        {"gpu": "h1000"},
        {"torch_backend": "cuda13"},
        {"cuda": "thirteen"},
        {"wants": ()},
    ],
)
def test_what_is_no_request(fields: dict[str, str]) -> None:
    """One message, in three parts."""
    with pytest.raises(BadInput) as caught:
        plan(PlanRequest(**{"wants": ("torch",), "offline": True, **fields}))  # type: ignore[arg-type]

    assert caught.value.hint


def test_offline_the_tables_answer() -> None:
    """Nobody is asked, and that is said."""
    answer = plan(PlanRequest(wants=("flash-attn",), gpu="h100", python="3.12", offline=True))

    assert answer.plans[0].torch == "2.9.1"
    assert "nobody was asked" in answer.notes[0]
    assert not any(one.asked for one in answer.channels)


def test_amds_gpus_are_not_nvidias() -> None:
    """No plan, and why."""
    answer = plan(PlanRequest(wants=("flash-attn",), gpu="mi300x", python="3.12", offline=True))

    assert answer.exit_status == 1
    assert "AMD" in answer.clashes[0].words


def test_an_environment_that_is_there_is_never_changed(tmp_path: Path) -> None:
    """Nor any folder that holds something."""
    refuse_present(tmp_path / "new")
    (tmp_path / "pyvenv.cfg").touch()

    with pytest.raises(BadInput, match="there already"):
        refuse_present(tmp_path)


def test_commands_in_order() -> None:
    """torch from its own index first, then what follows it, then what comes from that index alone."""
    index = "https://download.pytorch.org/whl/cu126"
    releases = (
        PlannedRelease(name="torch", version="2.13.0", channel=Channel.TORCH_INDEX, wanted=True),
        PlannedRelease(name="xformers", version="0.0.35", channel=Channel.TORCH_INDEX, wanted=True, url=index),
        PlannedRelease(name="einops", version="0.8.2", channel=Channel.REGISTRY, wanted=True),
    )
    made = StackPlan(
        torch="2.13.0", build="cu126", channel=Channel.TORCH_INDEX, index=index, releases=releases,
        requirements=("torch==2.13.0", "xformers==0.0.35", "einops==0.8.2"),
    )  # fmt: skip

    assert install_arguments(made) == [
        ["torch==2.13.0+cu126", "--index-url", index],
        ["xformers==0.0.35", "--no-deps", "--index-url", index],
        ["torch==2.13.0+cu126", "einops==0.8.2"],
    ]


def test_a_node_in_words() -> None:
    """Nothing named, nothing claimed."""
    assert PlannedNode().words.startswith("no GPU named, driver not named")
