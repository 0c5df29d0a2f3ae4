"""std::string of either ABI: in torch, in extensions, and in real ones compiled against the torch at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import Extension, LoaderView, StringAbi, Unreadable, examine_extension, torch_abi
from tests.probe.binaries.building import ERROR_NEW, ERROR_OLD, Build, against, needing, really_load

TorchMaker = Callable[..., Path]


#: torch's headers for tensors take ten seconds to compile; those of its core have the same strings.
MATCHING = """
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
std::string checked(const std::string& text) {
  TORCH_CHECK(!text.empty(), "a device, not ", text);
  return c10::Device(text).str();
}
"""


@pytest.fixture(scope="session")
def compile_against_torch(
    compiler: str, torch_lib: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A real C++ extension against the headers of the torch at hand; once a session."""
    import subprocess

    built: dict[str, Path] = {}

    def make(abi: str) -> Path:
        if abi not in built:
            path = tmp_path_factory.mktemp("extension") / f"abi{abi}.so"
            source = path.with_suffix(".cpp")
            source.write_text(MATCHING)
            include = torch_lib.parent / "include"
            subprocess.run(
                [
                    compiler, "-shared", "-fPIC", "-O0", "-std=c++20", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
                    f"-I{include}", f"-I{include}/torch/csrc/api/include", "-o", path, source,
                    f"-L{torch_lib}", "-lc10", "-ltorch_cpu", "-ltorch", "-Wl,--unresolved-symbols=ignore-all",
                ],
                check=True, timeout=500,
            )  # fmt: skip
            built[abi] = path
        return built[abi]

    return make


def test_an_extension_built_for_this_torch_loads(compile_against_torch: Callable[..., Path], here: LoaderView) -> None:
    """Compiled against the very headers: nothing is missing, and the real loader takes it."""
    path = compile_against_torch("1")
    answer = examine_extension(path, here)

    assert isinstance(answer, Extension)
    assert (answer.would_load, answer.cxx11_abi, answer.missing_torch_symbols) == (True, StringAbi.NEW, ())
    assert (answer.cudart_major, answer.needs_cuda_torch, answer.cuda_libraries) == (None, False, ())
    assert really_load(path, torch=True)[0] == ""


def test_an_extension_with_the_other_string_is_refused(
    compile_against_torch: Callable[..., Path], here: LoaderView, torch_lib: Path
) -> None:
    """The same source with the old std::string: torch's symbols with a string in them are missing. As in reality."""
    path = compile_against_torch("0")
    answer = examine_extension(path, here)
    error, _ = really_load(path, torch=True)

    assert isinstance(answer, Extension)
    assert torch_abi(torch_lib) is StringAbi.NEW
    assert (answer.would_load, answer.cxx11_abi) == (False, StringAbi.OLD)
    assert ERROR_OLD in answer.missing_torch_symbols or any("RKSs" in name for name in answer.missing_torch_symbols)
    assert any(f"undefined symbol: {name}" in error for name in answer.missing_torch_symbols)
    assert (answer.missing_other_symbols, answer.unjudged_symbols) == ((), ())


@pytest.mark.parametrize(("error", "abi"), [(ERROR_NEW, StringAbi.NEW), (ERROR_OLD, StringAbi.OLD), ("other", None)])
def test_torchs_own_abi(made_up_torch: TorchMaker, error: str, abi: StringAbi | None) -> None:
    """Read from libc10.so, or not told there."""
    assert torch_abi(made_up_torch(error=error)) is abi


def test_torchs_abi_without_torch(tmp_path: Path) -> None:
    """No libc10.so: could not be read."""
    assert isinstance(torch_abi(tmp_path), Unreadable)


@pytest.mark.parametrize(("mine", "torchs"), [(ERROR_OLD, ERROR_NEW), (ERROR_NEW, ERROR_OLD)])
def test_abi_of_both_directions(build: Build, made_up_torch: TorchMaker, mine: str, torchs: str) -> None:
    """New beside old and old beside new: the other constructor of c10::Error is missing."""
    lib = made_up_torch(error=torchs)
    path = build(lib.parent.parent / "p" / "e.so", needing(mine), "-Wl,--no-as-needed", lib / "libc10.so")
    answer = against(lib, path)

    assert (StringAbi.OLD if mine is ERROR_OLD else StringAbi.NEW, (mine,)) == (
        answer.cxx11_abi,
        answer.missing_torch_symbols,
    )


def test_strings_of_both_kinds_are_no_evidence(build: Build, tmp_path: Path) -> None:
    """A library that mixes them has no direction; nor has one whose strings are in other people's symbols."""
    mixed = build(tmp_path / "mixed.so", needing(ERROR_NEW, ERROR_OLD))
    others = build(tmp_path / "others.so", needing("_ZN3lib4openERKSs"))

    assert [against(None, path).cxx11_abi for path in (mixed, others)] == [None, None]
