"""A torch that has no wheel for the log's Python is not the first fix."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from tests.diagnose.log.making import made


def first(pinned: str, path: str) -> str:
    """The first fix of a message below this path, of a recipe that pins torch and has another way."""
    recipe = made(
        "a-trouble",
        {"pattern": "it broke"},
        remedy=[
            {
                "id": "pinned",
                "title": "pinned",
                "safety": "unsafe",
                "why_this_safety": "a test",
                "actions": [{"kind": "advise", "text": "so", "commands": [pinned]}],
            },
            {
                "id": "other",
                "title": "other",
                "safety": "unsafe",
                "why_this_safety": "a test",
                "actions": [{"kind": "advise", "text": "so"}],
            },
        ],
    )
    text = f'Traceback (most recent call last):\n  File "{path}/torch/cuda.py", line 1, in f\nRuntimeError: it broke'
    (finding,) = explain_text(text, [recipe], FactSet()).diagnosis.findings
    return finding.remedies[0].id


@pytest.mark.parametrize(
    ("torch", "python", "expected"),
    [
        ("2.7.1", "3.8", "other"),
        ("2.4.1", "3.8", "pinned"),
        ("2.7.1", "3.13", "pinned"),
        ("2.4.1", "3.13", "other"),
        ("1.10.0", "3.10", "other"),  # 3.10 is no older than 3.9
        ("99.0.0", "3.8", "pinned"),  # of which the table says nothing
    ],
)
def test_a_torch_for_another_python(torch: str, python: str, expected: str) -> None:
    command = f"python -m pip install torch=={torch} torchvision"

    assert first(command, f"/usr/lib/python{python}/site-packages") == expected


def test_no_python_is_told() -> None:
    assert first("python -m pip install torch==2.7.1", "/app") == "pinned"


@pytest.mark.parametrize(
    "new", ["uv venv --python 3.12 new", "conda create -n new python=3.12", "python3.12 -m venv new"]
)
def test_a_new_environment_has_a_python_of_its_own(new: str) -> None:
    command = f"{new} && python -m pip install torch==2.7.1"

    assert first(command, "/usr/lib/python3.8/site-packages") == "pinned"


def test_two_remedies_that_say_the_same_are_one() -> None:
    """Two of a recipe become the program's own switch."""
    same = {
        "title": "so",
        "safety": "unsafe",
        "why_this_safety": "a test",
        "actions": [{"kind": "advise", "text": "so"}],
    }
    other = {**same, "id": "other", "title": "or so"}
    recipe = made("a-trouble", {"pattern": "it broke"}, remedy=[{"id": "one", **same}, other, {"id": "two", **same}])

    (finding,) = explain_text("RuntimeError: it broke", [recipe], FactSet()).diagnosis.findings

    assert [one.id for one in finding.remedies] == ["one", "other"]
