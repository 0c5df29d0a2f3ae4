"""Where the release to install hangs on a torch that nobody named, the answer lists the releases by torch."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Remedy
from attn_doctor.model.remedies import InstallPackages
from attn_doctor.recipes.data.torch_releases import partner_for, partners, releases_by_torch, triton_series
from attn_doctor.recipes.shelf import bundled, families

NMS = "RuntimeError: operator torchvision::nms does not exist"
SOUND = "OSError: /env/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZN2at4_ops5zeros4callE"
TRITON = "ModuleNotFoundError: No module named 'triton'"


def _first(log: str) -> Remedy:
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0]


@pytest.mark.parametrize(
    ("log", "told"),
    [(NMS, "2.6.0: 0.21.0"), (TRITON, "2.6: 3.2")],
    ids=["nms", "triton"],
)
def test_releases_by_torch_and_the_command_that_names_it(log: str, told: str) -> None:
    one, *_ = _first(log).actions

    assert isinstance(one.action, InstallPackages)
    assert told in one.action.index_hint
    assert one.commands == ('python -c "import torch; print(torch.__version__)"',)


def test_torchaudio_takes_its_number_from_the_torch_that_is_there() -> None:
    (one,) = _first(SOUND).actions

    (command,) = one.commands
    assert "torch.__version__.split('+')[0]" in command
    assert command.startswith(
        'python -m pip install --no-deps --force-reinstall "torchaudio==$(python -c "import torch;'
    )


@pytest.mark.parametrize(
    ("log", "typed"),
    [(NMS, "torchvision==0.21.0"), (SOUND, "torchaudio==2.6.0 --index-url https://download.pytorch.org/whl/cu124")],
    ids=["nms", "so"],
)
def test_a_torch_that_the_log_names_decides(log: str, typed: str) -> None:
    (one,) = _first(f"torch==2.6.0{'+cu124' if log is SOUND else ''}\n{log}").actions

    assert isinstance(one.action, InstallPackages)
    assert one.action.index_hint == ""
    assert one.commands == (f"python -m pip install --no-deps --force-reinstall {typed}",)


@pytest.mark.parametrize("package", sorted(partners()))
def test_the_list_says_what_the_table_says_of_each_torch(package: str) -> None:
    pairs = releases_by_torch(package)

    assert len(pairs) > 8
    assert all(partner_for(package, torch.rstrip("+")) == release for torch, release in pairs)


def test_triton_goes_by_minor_releases_of_torch() -> None:
    assert all(triton_series(f"{torch}.0") == series for torch, series in releases_by_torch("triton"))
    assert releases_by_torch("numpy") == ()
