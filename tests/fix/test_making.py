"""Several cures that meet in one file: each is planned whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.fix.plan_builder import Chosen, PlanBuilder
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.treatments import set_config
from attn_doctor.fix.treatments.edit_source import Casts
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding, Remedy, Safety, Severity
from attn_doctor.model.plans import FileEdit, Splice
from attn_doctor.model.remedies import ProposedAction, SetConfig


def chosen(name: str, file: Path, *settings: tuple[str, str]) -> Chosen:
    actions = tuple(ProposedAction(action=SetConfig(key=key, value=value)) for key, value in settings)
    remedy = Remedy(id="cure", title=f"cure {name}", safety=Safety.SAFE, actions=actions)
    finding = Finding(
        id=name, severity=Severity.ERROR, title=name, subjects=(f"config {file}",), remedies=(remedy,)
    )  # fmt: skip
    return Chosen(finding=finding, remedy=remedy)


def making(folder: Path, *configs: Path) -> PlanBuilder:
    return PlanBuilder(
        facts=FactSet(),
        configs=tuple(map(str, configs)),
        projects=(str(folder),),
        prefix="/nowhere",
        here=str(folder),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "train.yaml"
    made.write_bytes(b"stage: sft\nfinetuning_type: lora\nbf16: false\nfp16: false\nflash_attn: fa2\n")
    return made


def test_half_of_a_cure_is_none(file: Path) -> None:
    """Where one of its keys is what another cure wants otherwise, none of its keys is written."""
    made = making(file.parent, file)
    first = chosen("first", file, ("fp16", "true"))
    second = chosen("second", file, ("flash_attn", "auto"), ("fp16", "false"))
    set_config.TREATMENT.plan(made, [first, second])
    (step,) = made.steps

    assert isinstance(step.change, FileEdit)
    assert "flash_attn" not in "".join(line for line in step.change.diff.splitlines() if line[:1] in "+-")
    assert [one.finding for one in step.cures] == ["first"]
    assert [one.finding for one in made.left] == ["second"]


def test_what_is_left_edits_nothing(tmp_path: Path) -> None:
    """A finding of which one place cannot be mended leaves no edit in a file that another one changes."""
    source = tmp_path / "model.py"
    source.write_bytes(b"a = 1\nb = 2\n")
    made = making(tmp_path)
    casts = Casts(made)
    one, other = chosen("one", source), chosen("other", source)
    casts.add(one, str(source), lambda _: (Splice(start=4, end=5, text="10"),))
    casts.add(other, str(source), lambda _: (Splice(start=10, end=11, text="20"),))
    casts.forget(one)
    casts.plan()
    (step,) = made.steps

    assert isinstance(step.change, FileEdit)
    assert step.change.splices == (Splice(start=10, end=11, text="20"),)
    assert [cured.finding for cured in step.cures] == ["other"]


def test_one_edit_for_two_findings(tmp_path: Path) -> None:
    """Two findings that ask for the same cast are cured by it together."""
    source = tmp_path / "model.py"
    source.write_bytes(b"a = 1\n")
    casts = Casts(making(tmp_path))
    for name in ("one", "other", "one"):
        casts.add(chosen(name, source), str(source), lambda _: (Splice(start=4, end=5, text="10"),))
    casts.plan()
    (step,) = casts.builder.steps

    assert [cured.finding for cured in step.cures] == ["one", "other"]


def test_an_installed_file_is_told_as_that(tmp_path: Path) -> None:
    """It lies in the environment, and no cast of ours belongs there: a release cures it, or a person."""
    file = tmp_path / "env" / "lib" / "site-packages" / "lib" / "attend.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a = 1\n")
    casts = Casts(making(tmp_path))

    with pytest.raises(Refused, match="is an installed file"):
        casts.add(chosen("one", file), str(file), lambda _: ())
