"""What the probe of compiled files notes down of what it read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.model.facts import Absent, FactSet, Unknown
from attn_doctor.probe.binaries import LoaderView
from attn_doctor.probe.binaries.extensions import _note_extension
from attn_doctor.probe.fact_notes import FactNotes
from tests.probe.binaries.building import Build, needing

TorchMaker = Callable[..., Path]


@pytest.mark.parametrize("name", ["missing_symbols", "missing_other_symbols"])
def test_without_any_torch_no_question_is_left(build: Build, made_up_torch: TorchMaker, name: str) -> None:
    """A package alone, by --no-deps: whether it was compiled for another torch is no question, there being none.

    Beside a torch, a symbol that nobody can place stays one.
    """
    lib = made_up_torch()
    site = lib.parent.parent
    source = needing("_ZN2at4_ops3addE", "aoti_torch_dtype_complex128", "cublasLtMatmulDescCreate", "nobodys_own")
    path = build(site / "vllm" / "_C.so", source, lib / "libtorch_cpu.so")

    def noted(torch_lib: Path | None) -> object:
        notes = FactNotes()
        with LoaderView(torch_lib=torch_lib, interpreter=Path(sys.executable), site_packages=(site,)) as view:
            assert _note_extension(notes, "vllm._C", path, "vllm", view)
        return FactSet(notes.facts()).fact(f"extension.vllm._C.{name}").state

    assert isinstance(noted(None), Absent)
    beside = noted(lib)
    assert name == "missing_symbols" or isinstance(beside, Unknown)
