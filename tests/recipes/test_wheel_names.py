"""A wheel's name and page, for a reader whose torch nobody named."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import InstallWheel
from attn_doctor.recipes.data.wheels import TABLES, name_to_read, page_of, versions
from attn_doctor.recipes.shelf import bundled, families


@pytest.mark.parametrize("package", sorted(TABLES))
def test_the_name_is_of_a_release_that_the_table_has(package: str) -> None:
    named = re.fullmatch(
        r"\w+-(?P<version>[\w.]+)\+cu\d+torch\d\.\d+cxx11abi(?:TRUE|FALSE)-(cp3\d+)-\2-linux_\w+\.whl",
        name_to_read(package),
    )

    assert named
    assert named["version"] in versions(package)
    assert re.fullmatch(r"https://github\.com/[\w-]+/[\w-]+/releases", page_of(package))


def test_an_unknown_torch_is_asked_for_and_the_page_named() -> None:
    log = "ImportError: /env/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
    first = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0].actions[0]

    assert isinstance(first.action, InstallWheel)
    assert page_of("flash-attn") in first.action.text
    assert "--assume" in first.action.text
    fetch, look = first.commands
    assert fetch.startswith("python -m pip install --force-reinstall --no-cache-dir --no-deps --no-build-isolation ")
    assert look.startswith("python -c")


def test_windows_has_no_setup_that_fetches_a_wheel() -> None:
    log = "C:/e/Lib/site-packages/x.py\nImportError: cannot import name 'flash_attn_qkvpacked_func' from 'flash_attn'"
    found = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies
    assert not any("--force-reinstall" in command for one in found for act in one.actions for command in act.commands)
