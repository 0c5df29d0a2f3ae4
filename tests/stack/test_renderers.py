"""A plan in each format that something else reads."""

from __future__ import annotations

import io
import json
import sys

import pytest
from ruamel.yaml import YAML

from attn_doctor.model.stack import PlannedNode, StackAnswer
from attn_doctor.report import picker
from attn_doctor.report.renderer import PLAN, Manner
from attn_doctor.stack.candidates import Limits
from attn_doctor.stack.solve import solve
from attn_doctor.stack.wants import read_wants

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OLD_DRIVER = PlannedNode(gpu="h100", capability="9.0", driver="535.1", python="3.12")
H100 = PlannedNode(gpu="h100", capability="9.0", driver="580.95", python="3.12")


def written(form: str, wants: list[str], node: PlannedNode) -> str:
    solved = solve(read_wants(wants), node, Limits(), None, lambda *_: {}, most=1)
    stream = io.StringIO()
    picker.pick(PLAN, form).write(StackAnswer(wants=tuple(wants), node=node, plans=solved.plans), stream, Manner())
    return stream.getvalue()


def test_requirements_name_the_build() -> None:
    """torch from its own index has its build in the version."""
    lines = [one for one in written("requirements", ["torch==2.13.0"], OLD_DRIVER).splitlines() if one[0] != "#"]

    assert lines == ["--extra-index-url https://download.pytorch.org/whl/cu129", "torch==2.13.0+cu129"]


def test_uv_has_an_index_for_torch_alone() -> None:
    """Explicit: nothing else is looked for there."""
    project = tomllib.loads(written("uv", ["torch==2.13.0", "xformers"], H100))

    assert project["tool"]["uv"]["sources"] == {"xformers": {"index": "torch-0"}}
    assert project["tool"]["uv"]["index"][0]["explicit"]
    assert project["project"]["requires-python"] == ">=3.12,<3.13"


def test_uv_takes_a_file_by_its_address() -> None:
    """flash-attn's own."""
    project = tomllib.loads(written("uv", ["flash-attn"], H100))

    assert project["tool"]["uv"]["sources"]["flash-attn"]["url"].startswith("https://")


def test_conda_is_yaml() -> None:
    """Python from conda, the rest by pip."""
    table = YAML(typ="safe").load(written("conda", ["flash-attn"], H100))

    assert table["dependencies"][0] == "python=3.12"
    assert table["dependencies"][2]["pip"][0] == "torch==2.9.1"


def test_docker_installs_in_order() -> None:
    """torch before what follows it."""
    runs = [
        one for one in written("docker", ["torch==2.13.0", "fla"], OLD_DRIVER).splitlines() if one.startswith("RUN")
    ]

    assert "torch==2.13.0+cu129" in runs[0]
    assert "flash-linear-attention" in runs[1]


def test_json_has_a_schema() -> None:
    """attn-doctor/stack/v1"""
    answer = json.loads(written("json", ["flash-attn"], H100))

    assert (answer["schema"], answer["exit_status"]) == ("attn-doctor/stack/v1", 0)


@pytest.mark.parametrize("form", ["requirements", "uv", "docker", "conda"])
def test_without_a_plan_nothing_is_to_be_installed(form: str) -> None:
    """Comments alone."""
    text = written(form, ["torch==2.13.0", "flash-attn"], H100)

    assert all(line.startswith("#") for line in text.splitlines())


def test_the_end_of_a_name_tells_the_format() -> None:
    """A plan's .txt is one of requirements."""
    assert picker.pick(PLAN, output="constraints.txt").renderer.name == "requirements"
    assert picker.pick(PLAN, output="pyproject.toml").renderer.name == "uv"
