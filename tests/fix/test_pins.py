"""Lists beside an environment that would bring an old release back: edited in the same plan, or told."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.fix.allowed import check_plan
from attn_doctor.fix.edits.pins import Manifests, planned
from attn_doctor.fix.edits.splices import digest, spliced
from attn_doctor.fix.plan_builder import Chosen, PlanBuilder
from attn_doctor.fix.treatments import install_packages
from attn_doctor.formats import plan_v1
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding, ProposedAction, Remedy, Safety, Severity
from attn_doctor.model.plans import FileEdit, Install, PackageChange, Plan
from attn_doctor.model.remedies import InstallPackages
from attn_doctor.quick_dataclasses import replace
from tests.fix.crashing import Scene

CHANGE = PackageChange(name="x-transformers", before="1.30.1", after="1.30.2")


@pytest.mark.parametrize(
    ("file", "text", "after"),
    [
        (
            "requirements.txt",
            "torch\r\nX_Transformers==1.30.1  # why\r\n",
            "torch\r\nX_Transformers==1.30.2  # why\r\n",
        ),
        ("requirements-train.txt", "x-transformers == 1.30.1 ; python_version > '3.8'", None),
        ("requirements/base.in", "x.transformers[all]===1.30.1\n", "x.transformers[all]===1.30.2\n"),
        ("constraints.txt", "x-transformers==1.30.1.0\n", "x-transformers==1.30.2\n"),
        ("Dockerfile", 'RUN pip install "x-transformers==1.30.1" torch\n', None),
        ("Dockerfile.gpu", "RUN pip install torch==2.13.0 \\\n    x-transformers==1.30.1 && rm -r /tmp/x\n", None),
        (
            "environment.yml",
            "dependencies:\n  - python\n  - pip:\n      - torch\n      - x-transformers==1.30.1\n",
            None,
        ),
        ("pyproject.toml", '[project]\nname = "mine"\ndependencies = [\n  "x-transformers==1.30.1",\n]\n', None),
        ("pyproject.toml", "[dependency-groups]\ntrain = ['x-transformers==1.30.1']\n", None),
        ("pyproject.toml", '[tool.poetry.dependencies]\nx-transformers = "1.30.1"\n[mine]\nx = "1.30.1"\n', None),
        ("pyproject.toml", '[tool.poetry.dependencies]\nx-transformers = {version = "1.30.1", extras = ["a"]}\n', None),
    ],
)
def test_an_exact_pin_is_edited(tmp_path: Path, file: str, text: str, after: str | None) -> None:
    """At that place alone, with nothing left to say."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(text.encode())
    (edit,), told = planned((CHANGE,), Manifests(owning=tmp_path, others=(tmp_path,)))
    wanted = text.replace("1.30.1", "1.30.2", 1) if after is None else after

    assert spliced(text.encode(), edit.splices).decode() == wanted
    assert edit.is_list
    assert told == ()


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("uv.lock", '[[package]]\nname = "x-transformers"\nversion = "1.30.1"\n', "uv lock --upgrade-package"),
        ("poetry.lock", '[[package]]\nname = "x-transformers"\n', "poetry update x-transformers"),
        ("Pipfile.lock", '{"default": {"x-transformers": {"version": "==1.30.1"}}}', "pipenv upgrade"),
        ("requirements.txt", "x-transformers<1.30.2\n", "1.30.2 fits"),
        ("requirements.txt", "x-transformers==1.30.0\n", "1.30.2 fits"),
        ("requirements.txt", "x-transformers==1.30.1 \\\n    --hash=sha256:00\n", "with other hashes"),
        ("environment.yml", "dependencies:\n  - x-transformers==1.30.1\n", "1.30.2 fits"),
        ("pyproject.toml", '[project]\ndependencies = ["x-transformers>=1,<1.30.2"]\n', "1.30.2 fits"),
    ],
)
def test_what_a_person_has_to_do(tmp_path: Path, file: str, text: str, words: str) -> None:
    """Locks, hashes, ranges, and what conda installs."""
    (tmp_path / file).write_text(text)
    edits, (told,) = planned((CHANGE,), Manifests(owning=tmp_path))

    assert edits == ()
    assert words in told
    assert str(tmp_path / file) in told


def test_a_lock_of_a_package_that_the_project_names(tmp_path: Path) -> None:
    """Its pin is edited, and the lock has the command that keeps both together."""
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["x-transformers==1.30.1"]\n')
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "x-transformers"\nversion = "1.30.1"\n')
    edits, (told,) = planned((CHANGE,), Manifests(owning=tmp_path))

    assert len(edits) == 1
    assert "`uv add 'x-transformers==1.30.2'`" in told


@pytest.mark.parametrize(
    "text",
    [
        "x-transformers\n",
        "x-transformers>=1.30\n",
        "# x-transformers==1.30.1\n",
        "\0\xff",
        "my-x-transformers==1.30.1\n",
    ],
)
def test_lists_that_allow_it(tmp_path: Path, text: str) -> None:
    """Nothing is said of them."""
    (tmp_path / "requirements.txt").write_text(text, errors="replace")

    assert planned((CHANGE,), Manifests(owning=tmp_path)) == ((), ())


def test_lists_of_another_folder(tmp_path: Path) -> None:
    """An environment that is no part of a project changes no file of it."""
    (tmp_path / "requirements.txt").write_text("x-transformers==1.30.1\n")
    edits, (told,) = planned((CHANGE,), Manifests(others=(tmp_path,)))

    assert edits == ()
    assert "1.30.2 fits" in told


def test_a_list_that_is_a_link(tmp_path: Path) -> None:
    """Out of the project: it is told."""
    (tmp_path / "elsewhere.txt").write_text("x-transformers==1.30.1\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "requirements.txt").symlink_to(tmp_path / "elsewhere.txt")
    edits, told = planned((CHANGE,), Manifests(owning=project))

    assert edits == ()
    assert len(told) == 1


@pytest.fixture
def pinned(tmp_path: Path) -> tuple[Scene, Plan]:
    """A plan that installs, made from a project whose list pins the old release."""
    scene = Scene.make(tmp_path / "scene")
    (scene.prefix.parent / "requirements.txt").write_bytes(b"kernels==1.0 # x\r\n")
    plan = scene.plan()
    installing = next(step.change for step in plan.steps if isinstance(step.change, Install))
    action = InstallPackages(requirements=("kernels==2.0",))
    remedy = Remedy(
        id="newer", title="t", safety=Safety.SAFE, why_this_safety="same", actions=(ProposedAction(action=action),)
    )
    finding = Finding(id="old", severity=Severity.ERROR, title="kernels is old", remedies=(remedy,))
    builder = PlanBuilder(
        facts=FactSet(()),
        configs=(),
        projects=(),
        prefix=plan.prefix,
        here="",
        resolve=lambda _: installing,
        manifests=Manifests(owning=scene.prefix.parent),
    )
    install_packages.plan_installation(builder, [Chosen(finding=finding, remedy=remedy)])
    return scene, replace(plan, steps=tuple(builder.steps), projects=builder.projects, configs=())


def test_the_pin_is_part_of_the_plan(pinned: tuple[Scene, Plan]) -> None:
    """In one question and one journal with the package, as safe as that, and undone with it."""
    scene, plan = pinned
    step, edit = plan.steps

    assert isinstance(edit.change, FileEdit)
    assert (edit.cures, edit.safety, edit.why_this_safety) == (step.cures, step.safety, step.why_this_safety)
    assert plan_v1.loads(plan_v1.dumps(plan), about="") == plan
    check_plan(plan, prefix=scene.prefix, here=Path("/"))

    before = scene.state()
    assert scene.run(plan).cured
    assert (scene.prefix.parent / "requirements.txt").read_bytes() == b"kernels==2.0 # x\r\n"
    assert digest((scene.prefix.parent / "requirements.txt").read_bytes()) == edit.change.after
    scene.undo()
    assert scene.state() == before
