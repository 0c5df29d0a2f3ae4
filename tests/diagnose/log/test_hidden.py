"""A file of the program with a package's name is told as such, and no release of the package is."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

CIRCLE = """Traceback (most recent call last):
  File "{path}", line 3, in <module>
    @triton.jit
AttributeError: partially initialized module 'triton' has no attribute 'jit' (most likely due to a circular import)"""


def first(log: str) -> str:
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].id


@pytest.mark.parametrize(
    ("log", "id_"),
    [
        (
            "ImportError: cannot import name 'flash_attn_func' from 'flash_attn' (/home/u/proj/flash_attn.py)",
            "package-hidden-by-a-folder",
        ),
        (
            "AttributeError: module 'triton' has no attribute 'jit' (consider renaming '/u/triton.py' since it ...)",
            "package-hidden-by-a-folder",
        ),
        (
            "ModuleNotFoundError: No module named 'transformers.modeling_utils'; 'transformers' is not a package",
            "module-is-a-file-of-ones-own",
        ),
        (CIRCLE.format(path="/home/u/triton.py"), "module-is-a-file-of-ones-own"),
    ],
)
def test_a_file_of_ones_own(log: str, id_: str) -> None:
    assert first(log) == id_


@pytest.mark.parametrize(
    "path", ["/e/lib/python3.11/site-packages/flash_attn/__init__.py", "/work/flash-attention/flash_attn/__init__.py"]
)
def test_an_installed_package_and_a_checkout_are_none(path: str) -> None:
    assert first(f"ImportError: cannot import name 'flash_attn_func' from 'flash_attn' ({path})").startswith(
        ("version-or-api", "flash-attn-api")
    )
