"""What the files tell of the CUDA libraries that torch would load."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import Absent, FactSet, Known, Unknown
from attn_doctor.probe.binaries import torch_libraries
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.packages import take_inventory
from attn_doctor.recipes.shelf import bundled
from tests.diagnose.test_derived import facts
from tests.probe.test_packages import install


def _noted(site: Path, libraries: list[Path], missing: tuple[str, ...] = ()) -> FactSet:
    loaded = [SimpleNamespace(elf=SimpleNamespace(path=str(one), soname=one.name)) for one in libraries]
    base = SimpleNamespace(libraries=loaded, missing=[SimpleNamespace(name=name) for name in missing], unreadable=[])
    view: Any = SimpleNamespace(torch_lib=site / "torch" / "lib", base=base)
    notes = FactNotes()
    torch_libraries.note(notes, view, take_inventory([site]))
    return FactSet(notes.facts())


def _wheel(site: Path) -> Path:
    record = "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\nnvidia/cudnn/include/cudnn.h,,\n"
    install(site, "nvidia-cudnn-cu13", "9.20.0.48", RECORD=record)
    return site / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"


def test_cudnn_by_the_wheel_that_brings_it(tmp_path: Path) -> None:
    """Its metadata says which it is, as torch says it: three numbers."""
    file = _wheel(tmp_path)

    assert _noted(tmp_path, [Path("libtorch_cuda.so"), file]).value("torch.cudnn") == "9.20.0"


def test_a_cudnn_of_the_system_is_not_the_wheels(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH puts another one before it: its version nobody knows before torch says it."""
    _wheel(tmp_path)
    seen = _noted(tmp_path, [Path("libtorch_cuda.so"), Path("/usr/lib/libcudnn.so.9")])

    assert seen.fact("torch.cudnn").state == Unknown(
        "no package says of which version /usr/lib/libcudnn.so.9 is", asked=False
    )


def test_a_cpu_build_has_none(tmp_path: Path) -> None:
    """Neither is looked for in vain."""
    assert _noted(tmp_path, [Path("libtorch_cpu.so")]).fact("torch.cudnn").state == Absent("torch loads none")


def test_libraries_of_the_driver_are_the_nodes(tmp_path: Path) -> None:
    """An image is built where there is no driver; what the wheels would bring is missing."""
    seen = _noted(tmp_path, [Path("libtorch_cuda.so")], missing=("libcuda.so.1", "libcublas.so.13", "libcudnn.so.9"))

    assert seen.fact("torch.missing_libraries").state == Known(("libcublas.so.13", "libcudnn.so.9"))


@pytest.mark.parametrize(("outcome", "found"), [(None, True), ("failed", True), ("imported", False)])
def test_missing_libraries_are_a_finding_unless_torch_was_imported(outcome: str | None, found: bool) -> None:
    """--quick knows it; a full check that imported torch knows better; what fails by it hangs under it."""
    known: dict[str, object] = {
        "torch__version": "2.15.0+cu132",
        "package__torch__version": "2.15.0",
        "torch__missing_libraries": ("libcudnn.so.9",),
        "listed__import": Unknown("not asked for (--quick)", asked=False) if outcome is None else Known(1),
    }
    if outcome is not None:
        known["import__torch__outcome"] = outcome
    wanted = ("torch-libraries-missing", "torch-import-fails")
    findings = judge(derive(facts(**known)), [one for one in bundled() if one.id in wanted]).findings

    assert [one.id for one in findings] == (["torch-libraries-missing"] if found else [])
    if found:
        (command,) = findings[0].remedies[0].actions[0].commands
        assert "torch==2.15.0" in command
        assert "--no-deps" not in command


def test_the_nan_gradient_is_judged_from_files_alone() -> None:
    """cuDNN 9.20 on an H100: the recipe that asks for it is no longer left open by --quick."""
    known = facts(
        torch__version="2.13.0+cu130",
        torch__cuda="13.0",
        torch__cudnn="9.20.0",
        gpu__0__compute_capability="9.0",
        env__TORCH_CUDNN_SDPA_DEPRIORITIZED=Absent(),
    )
    found = judge(derive(known), [one for one in bundled() if one.id == "sdpa-cudnn-nan-gradient"])

    assert [one.id for one in found.findings] == ["sdpa-cudnn-nan-gradient"]
