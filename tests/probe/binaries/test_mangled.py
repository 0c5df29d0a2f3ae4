"""Names of C++: whose they are, and which std::string they speak of."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.probe.binaries import StringAbi
from attn_doctor.probe.binaries.mangled import qualified_name, string_abi
from attn_doctor.probe.binaries.owners import family, is_pythons, is_surely_torchs, is_torchs, may_be_gpu_part, stem
from attn_doctor.probe.binaries.symbols import Symbols, gnu_hash
from tests.probe.binaries.building import ERROR_NEW, ERROR_OLD, Build, needing

NEW = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.parametrize(
    ("symbol", "parts"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "c10 Error"),
        ("_ZNK2at10TensorBase8data_ptrIfEEPT_v", "at TensorBase data_ptr"),
        ("_ZNR5torch7Library4_defEOSt7variantIJEE", "torch Library _def"),
        ("_ZTVN5torch8autograd4NodeE", "torch autograd Node"),
        ("_ZTIN3c105ErrorE", "c10 Error"),
        ("_ZThn16_N5torch3jit6ModuleD1Ev", "torch jit Module"),
        ("_ZGVZN2at4impl3fooEvE1x", "at impl foo"),
        ("_ZN3c10lsERSoNS_10DeviceTypeE", "c10"),
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE", "THPVariable_Wrap"),
        ("_ZSt4cout", "std cout"),
        ("_ZNSt6vectorIN3c106IValueESaIS1_EE7reserveEm", "std vector"),
        ("_ZNKSs4findEPKcmm", "std"),
        ("_ZNSaIcED1Ev", "std"),
        ("_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb", "pybind11 detail type_caster"),
        ("_ZN2atL5innerEv", "at inner"),
        ("_ZdlPvm", ""),
        ("printf", ""),
        ("_ZN99999999999999999at", ""),
        ("_Z", ""),
        ("_ZN", ""),
    ],
)
def test_qualified_names(symbol: str, parts: str) -> None:
    """The parts ahead of any arguments; nothing where there is no name to read."""
    assert tuple(part.encode() for part in parts.split()) == qualified_name(symbol.encode())


@pytest.mark.parametrize(
    ("symbol", "abi"),
    [
        (ERROR_NEW, StringAbi.NEW),
        (ERROR_OLD, StringAbi.OLD),
        (f"_ZN3c106detail14torchCheckFailEPKcS2_jRK{NEW}", StringAbi.NEW),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", StringAbi.OLD),
        ("_ZN5torch3jit17parseSchemaOrNameERKSsb", StringAbi.OLD),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jS2_", None),
        ("_ZNK3c1010DeviceType4nameB5cxx11Ev", StringAbi.NEW),
        # Ss inside of identifiers, at their beginning, and split over two of them
        ("_ZN2at10ClassStackEv", None),
        ("_ZN2at4SsEvE", None),
        ("_ZN2at1SERKNS_1sE", None),
        ("_ZN2at8SstackSsEi", None),
        # Behind literals, lambdas, arrays, vectors and function types
        ("_ZN2at3fooILj8EEEvRKSs", StringAbi.OLD),
        ("_ZN2at3fooILb1ELin42EEEvSs", StringAbi.OLD),
        ("_ZN2at3fooIZNS_3barEvEUlvE0_EEvT_Ss", StringAbi.OLD),
        ("_ZN2at3fooERA16_KcSs", StringAbi.OLD),
        ("_ZN2at3fooEDv4_fSs", StringAbi.OLD),
        ("_ZN2at3fooEPFvSsE", StringAbi.OLD),
        # Not to be followed: no evidence
        ("_ZN2at3fooILN3c1010ScalarTypeE6EEEvSs", None),
        ("_ZN2at3fooIXadL_Z3barvEEEEvSs", None),
        ("Ss", None),
    ],
)
def test_string_abi(symbol: str, abi: StringAbi | None) -> None:
    """The abbreviation counts where a type stands, never inside of a name."""
    assert abi is string_abi(symbol.encode())


@given(st.binary(max_size=60).map(lambda tail: b"_Z" + tail))
def test_any_bytes_can_be_read(symbol: bytes) -> None:
    """A name that is nonsense has some answer and ends."""
    assert len(b"".join(qualified_name(symbol))) <= len(symbol) + 3
    assert string_abi(symbol) in (None, StringAbi.NEW, StringAbi.OLD)


@given(st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,20}", fullmatch=True))
def test_no_identifier_shows_a_string(name: str) -> None:
    """However a function or a type is called, its name is no evidence for the old std::string."""
    assert string_abi(f"_ZN2at{len(name)}{name}ERKNS_{len(name)}{name}Ei".encode()) is None


SOURCE = """
#include <map>
#include <string>
#include <vector>
namespace at {
struct SsStack {}; enum class Kind { A, B };
void plain(const std::string&, int); void both(std::vector<std::string>, std::map<std::string, SsStack>);
template <int N, bool B> void with(std::string (*)(SsStack)); void none(SsStack, Kind, const char*);
}
void entry() {
  at::plain("", 0); at::both({}, {}); at::with<8, true>(nullptr); at::none({}, at::Kind::B, "");
}
"""


@pytest.mark.parametrize(("flag", "abi"), [("1", StringAbi.NEW), ("0", StringAbi.OLD)])
def test_string_abi_of_what_a_compiler_writes(build: Build, tmp_path: Path, flag: str, abi: StringAbi) -> None:
    """Each function with a std::string shows the ABI it was compiled with; the one without shows none."""
    from attn_doctor.probe.binaries.reader import ElfFile

    path = build(tmp_path / "lib.so", SOURCE, f"-D_GLIBCXX_USE_CXX11_ABI={flag}", cxx=True)
    with ElfFile(str(path)) as elf:
        found = {wanted.name: string_abi(wanted.name) for wanted in Symbols(elf).wanted() if is_torchs(wanted.name)}

    assert {True: {abi}, False: {None}} == {
        has: {value for name, value in found.items() if (b"4none" not in name) is has} for has in (True, False)
    }
    assert len(found) == 4


def test_demangler_agrees_whose_torchs_exports_are(torch_lib: Path) -> None:
    """Of what libc10.so exports in at, c10 and torch by c++filt, all is torch's by its mangled name."""
    nm, demangle = shutil.which("nm"), shutil.which("c++filt")
    if nm is None or demangle is None:
        pytest.skip("no binutils on this machine")
    printed = subprocess.run([nm, "-D", "--defined-only", torch_lib / "libc10.so"], capture_output=True, text=True)
    names = [line.split()[-1].partition("@")[0] for line in printed.stdout.splitlines()]
    clear = subprocess.run([demangle], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()
    ours = {
        name
        for name, text in zip(names, clear, strict=True)
        if text.startswith(("c10::", "at::", "torch::", "caffe2::"))
    }

    assert len(ours) > 500
    assert {name for name in ours if not is_torchs(name.encode())} == set()


@pytest.mark.parametrize(
    ("symbol", "pythons", "torchs", "library"),
    [
        ("PyObject_GetAttr", True, False, None),
        ("_PyThreadState_UncheckedGet", True, False, None),
        ("Python_is_nice", False, False, None),
        ("_ZN2at4_ops3addE", False, True, None),
        ("aoti_torch_get_current_cuda_stream", False, True, None),
        ("torch_call_dispatcher", False, True, None),
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE", False, True, None),
        ("_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb", False, True, None),
        ("_ZN8pybind119gil_scoped_acquireC1Ev", False, False, None),
        ("_Z8nms_cudaRKN2at6TensorES2_d", False, False, None),
        ("_ZN5atlas4findEv", False, False, None),
        ("cudaLaunchKernel", False, False, "libcudart"),
        ("__cudaRegisterFatBinary", False, False, "libcudart"),
        ("cublasLtMatmul", False, False, "libcublasLt"),
        ("cublasGemmEx", False, False, "libcublas"),
        ("cudnnCreate", False, False, "libcudnn"),
        ("__nvJitLinkCreate_12_8", False, False, "libnvJitLink"),
        ("ncclCommRegister", False, False, "libnccl"),
        ("cuLaunchKernel", False, False, "libcuda"),
        ("cushion", False, False, None),
        ("printf", False, False, None),
    ],
)
def test_owners(symbol: str, pythons: bool, torchs: bool, library: str | None) -> None:
    """Python's, torch's, a CUDA library's, or nobody's."""
    name = symbol.encode()

    assert (pythons, torchs, library) == (is_pythons(name), is_torchs(name), family(name))


def test_what_only_a_gpu_build_may_have() -> None:
    """c10::cuda and the like; a parameter type that has CUDA in its name does not count."""
    assert may_be_gpu_part(b"_ZN3c104cuda9SetDeviceEab")
    assert may_be_gpu_part(b"_ZN2at4cuda26getCurrentDevicePropertiesEv")
    assert may_be_gpu_part(b"_ZN4c10d16ProcessGroupNCCLC1Ev")
    assert may_be_gpu_part(b"aoti_torch_get_current_cuda_stream")
    assert not may_be_gpu_part(b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs")
    assert not may_be_gpu_part(b"_ZN2at3fooERKN3c104cuda6StreamE")


def test_whose_even_when_a_strange_library_is_missing() -> None:
    """torch::Library is torch's; torch::executor may be another project's."""
    assert is_surely_torchs(b"_ZN5torch7LibraryC1ENS0_4KindESs")
    assert is_surely_torchs(b"_ZN2at4_ops3addE")
    assert not is_surely_torchs(b"_ZN5torch8executor3runEv")


def test_stems() -> None:
    """Versions and the hashes of auditwheel are left out."""
    assert [stem(name) for name in ("libcudart.so.12", "libcudart.41118559.so.12", "libc10_cuda.so")] == [
        "libcudart",
        "libcudart",
        "libc10_cuda",
    ]


def test_a_needed_name_is_looked_up_as_it_is_spelled(build: Build, tmp_path: Path) -> None:
    """A mangled name written as a C identifier is one and the same symbol."""
    from attn_doctor.probe.binaries.reader import ElfFile

    path = build(tmp_path / "lib.so", needing(ERROR_OLD))
    with ElfFile(str(path)) as elf:
        assert ERROR_OLD.encode() in [wanted.name for wanted in Symbols(elf).wanted()]
        assert Symbols(elf).exports(b"entry", gnu_hash(b"entry"))
