"""An extension beside a torch: what it lacks, whose that is, and that the real loader says the same."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from attn_doctor.probe.binaries import Extension, LoaderView, examine_extension
from tests.probe.binaries.building import SET_DEVICE, Build, against, exporting, needing, nvidia_library, really_load

TorchMaker = Callable[..., Path]


def test_the_shape_of_a_whole_answer(build: Build, made_up_torch: TorchMaker) -> None:
    """Size, build id, needed libraries in the file's order, each with its place."""
    lib = made_up_torch(cuda=12)
    path = build(
        lib.parent.parent / "p" / "e.so", needing("_ZN2at4_ops3addE", "cudaMalloc"), "-Wl,-soname,e.so",
        "-Wl,--build-id=0xfeed", lib / "libtorch_cpu.so", lib.parent.parent / "nvidia/cuda_runtime/lib/libcudart.so.12",
    )  # fmt: skip
    answer = against(lib, path)

    assert (path, path.stat().st_size, "feed", "e.so") == (answer.path, answer.size, answer.build_id, answer.soname)
    assert [each.name for each in answer.needed if each.name != "libc.so.6"] == ["libtorch_cpu.so", "libcudart.so.12"]
    assert all(each.path is not None and each.path.exists() for each in answer.needed)
    assert (answer.cudart_major, answer.would_load) == (12, True)
    assert [(each.name, each.major, each.bundled) for each in answer.cuda_libraries] == [("libcudart", 12, False)]


def test_another_torchs_symbols_are_named(build: Build, made_up_torch: TorchMaker) -> None:
    """What torch no longer exports is torch's, and only that; weak symbols may stay undefined."""
    gone = ["_ZN2at4_ops4goneE", "_ZNK5torch8autograd4Node4nameEv", "aoti_torch_gone", "torch_gone"]
    lib = made_up_torch()
    source = (
        needing("_ZN2at4_ops3addE", *gone)
        + "\n__attribute__((weak)) int _ZN2at4weakE(void); int b(void) { return _ZN2at4weakE(); }"
    )
    path = build(lib.parent.parent / "p" / "e.so", source, lib / "libtorch_cpu.so")
    answer = against(lib, path)

    assert sorted(gone) == sorted(answer.missing_torch_symbols)
    assert (answer.missing_other_symbols, answer.unjudged_symbols, answer.would_load) == ((), (), False)


def test_a_torch_without_cuda_is_its_own_trouble(build: Build, made_up_torch: TorchMaker, tmp_path: Path) -> None:
    """Built for a CUDA torch, beside one without: said so, and c10::cuda is not called missing; c10 proper is."""
    lib = made_up_torch(cuda=12)
    site = lib.parent.parent
    links = [lib / "libc10_cuda.so", lib / "libtorch_cpu.so", site / "nvidia/cuda_runtime/lib/libcudart.so.12"]
    path = build(site / "p" / "fits.so", needing(SET_DEVICE, "cudaMalloc", "_ZN2at4_ops3addE"), *links)
    old = build(site / "p" / "old.so", needing(SET_DEVICE, "cudaMalloc", "_ZN3c104goneE"), *links)

    assert (against(lib, path).needs_cuda_torch, against(lib, path).would_load) == (False, True)
    assert (against(lib, old).needs_cuda_torch, against(lib, old).missing_torch_symbols) == (False, ("_ZN3c104goneE",))

    for name in ("libc10_cuda.so", "libtorch_cuda.so"):
        (lib / name).unlink()
    build(
        lib / "libtorch.so",
        exporting(),
        "-Wl,-soname,libtorch.so",
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--no-as-needed",
        lib / "libtorch_cpu.so",
    )
    build(lib / "libtorch_global_deps.so", exporting(), "-Wl,-soname,libtorch_global_deps.so")
    fits, aged = against(lib, path), against(lib, old)

    assert (fits.needs_cuda_torch, fits.missing_torch_symbols, fits.missing_other_symbols) == (True, (), ())
    assert fits.unjudged_symbols == ()
    assert [each.name for each in fits.missing_libraries] == ["libc10_cuda.so", "libcudart.so.12"]
    assert (aged.needs_cuda_torch, aged.missing_torch_symbols) == (True, ("_ZN3c104goneE",))


def test_a_cuda_symbol_that_a_cuda_torch_lacks_is_torchs(build: Build, made_up_torch: TorchMaker) -> None:
    """SetDevice(int) became SetDevice(signed char): built for another torch, not for another build of it."""
    lib = made_up_torch(cuda=12)
    path = build(lib.parent.parent / "p" / "e.so", needing("_ZN3c104cuda9SetDeviceEi"), lib / "libc10_cuda.so")
    answer = against(lib, path)

    assert (answer.missing_torch_symbols, answer.needs_cuda_torch) == (("_ZN3c104cuda9SetDeviceEi",), False)


def test_what_torch_loads_for_all_need_not_be_linked(build: Build, made_up_torch: TorchMaker) -> None:
    """libtorch_global_deps is loaded with RTLD_GLOBAL: its libcudart serves an extension that does not name it."""
    lib = made_up_torch(cuda=12)
    path = build(lib.parent.parent / "p" / "e.so", needing("cudaMalloc"))

    assert against(lib, path).would_load is True


def test_a_cuda_torch_that_renamed_a_library_is_a_cuda_torch(build: Build, made_up_torch: TorchMaker) -> None:
    """libtorch_cuda_cpp.so of torch 2.0 is in no later one; that torch is not without CUDA."""
    lib = made_up_torch(cuda=12)
    gone = build(lib / "libtorch_cuda_cpp.so", exporting(), "-Wl,-soname,libtorch_cuda_cpp.so")
    path = build(lib.parent.parent / "p" / "e.so", needing(), "-Wl,--no-as-needed", gone)
    gone.unlink()
    answer = against(lib, path)

    assert (
        [each.name for each in answer.missing_libraries],
        answer.needs_cuda_torch,
    ) == (["libtorch_cuda_cpp.so"], False)


def test_without_torch_nothing_is_judged(build: Build, made_up_torch: TorchMaker) -> None:
    """No torch at all: its libraries are missing, and no symbol is called so."""
    lib = made_up_torch()
    path = build(
        lib.parent.parent / "p" / "e.so", needing("_ZN2at4_ops3addE", "_ZN2at4_ops4goneE"), lib / "libtorch_cpu.so"
    )
    answer = against(None, path)

    assert (answer.missing_torch_symbols, answer.needs_cuda_torch, answer.would_load) == ((), False, False)
    assert {"_ZN2at4_ops3addE", "_ZN2at4_ops4goneE"} == set(answer.unjudged_symbols)
    assert "libtorch_cpu.so" in [each.name for each in answer.missing_libraries]


def test_a_damaged_torch_is_not_an_old_one(build: Build, made_up_torch: TorchMaker) -> None:
    """libtorch_cpu.so cut off by a full disk: the file is named, and its symbols are not called missing."""
    lib = made_up_torch()
    path = build(lib.parent.parent / "p" / "e.so", needing("_ZN2at4_ops3addE"), lib / "libtorch_cpu.so")
    whole = (lib / "libtorch_cpu.so").read_bytes()
    for size in (0, 100, 700, len(whole) // 8):
        (lib / "libtorch_cpu.so").write_bytes(whole[:size])
        with LoaderView(torch_lib=lib, interpreter=Path(sys.executable), site_packages=(lib.parent.parent,)) as view:
            answer = examine_extension(path, view)
            noted = [each.path for each in view.base.unreadable]

        assert isinstance(answer, Extension)
        assert (answer.missing_torch_symbols, answer.would_load is True) == ((), False)
        assert lib / "libtorch_cpu.so" in noted


def test_a_torch_that_is_being_replaced_is_not_an_old_one(build: Build, made_up_torch: TorchMaker) -> None:
    """libtorch_cpu.so shrinks between two looks: unreadable, for each extension, and its symbols are left open."""
    lib = made_up_torch()
    path = build(lib.parent.parent / "p" / "e.so", needing("_ZN2at4_ops3addE"), lib / "libtorch_cpu.so")
    with LoaderView(torch_lib=lib, interpreter=Path(sys.executable), site_packages=(lib.parent.parent,)) as view:
        (lib / "libtorch_cpu.so").write_bytes(b"")
        answers = [examine_extension(path, view), examine_extension(path, view)]

    for answer in answers:
        assert isinstance(answer, Extension)
        assert [each.path for each in answer.unreadable_libraries] == [lib / "libtorch_cpu.so"]
        assert (answer.missing_torch_symbols, answer.unjudged_symbols) == ((), ("_ZN2at4_ops3addE",))
        assert answer.would_load is None


def test_symbols_nobody_can_place_are_left_open(build: Build, made_up_torch: TorchMaker) -> None:
    """An own function that was never compiled, torch's Python binding that was not linked, a library loaded by hand."""
    lib = made_up_torch()
    names = ["_Z8nms_cudaRKN2at6TensorES2_d", "_Z16THPVariable_Wrap", "nvte_cast", "ncclCommInitAll"]
    path = build(lib.parent.parent / "p" / "e.so", needing(*names), "-Wl,--no-as-needed", lib / "libtorch_cpu.so")
    answer = against(lib, path)

    assert sorted(names) == sorted(answer.unjudged_symbols)
    assert (answer.missing_torch_symbols, answer.missing_other_symbols, answer.would_load) == ((), (), None)


def test_linking_the_python_binding_settles_it(build: Build, made_up_torch: TorchMaker) -> None:
    """The same symbol is found as soon as the extension names the library: loaded does not mean visible."""
    lib = made_up_torch()
    path = build(lib.parent.parent / "p" / "e.so", needing("_Z16THPVariable_Wrap"), lib / "libtorch_python.so")

    assert against(lib, path).would_load is True


def test_what_a_missing_library_would_bring_is_not_missing_too(build: Build, made_up_torch: TorchMaker) -> None:
    """libsox is not installed: that is the finding, not its functions; torch's lack is told all the same."""
    lib = made_up_torch()
    sox = build(lib / "libsox.so", exporting("sox_open", "_ZN5torch8executor3runEv"), "-Wl,-soname,libsox.so")
    names = ["sox_open", "_ZN5torch8executor3runEv", "_ZN5torch7LibraryC1E", "_ZN2at4_ops4goneE"]
    path = build(lib.parent.parent / "p" / "e.so", needing(*names), sox, lib / "libtorch_cpu.so", "-Wl,--no-as-needed")
    sox.unlink()
    answer = against(lib, path)

    assert [each.name for each in answer.missing_libraries] == ["libsox.so"]
    assert {"_ZN5torch7LibraryC1E", "_ZN2at4_ops4goneE"} == set(answer.missing_torch_symbols)
    assert answer.unjudged_symbols == ("_ZN5torch8executor3runEv",)


def test_an_old_nvjitlink_lacks_new_functions_of_one_version(build: Build, tmp_path: Path) -> None:
    """libcusparse wants __nvJitLinkAddData_12_6 of libnvJitLink.so.12, which has that version but not the function."""
    new = nvidia_library(build, tmp_path / "new", "nvjitlink", "libnvJitLink.so.12", "__nvJitLinkAddData_12_6")
    old = nvidia_library(build, tmp_path / "old", "nvjitlink", "libnvJitLink.so.12", "__nvJitLinkAddData_12_1")
    path = build(tmp_path / "p" / "libcusparse.so.12", needing("__nvJitLinkAddData_12_6"), new)
    good = against(None, path, LD_LIBRARY_PATH=str(new.parent))
    bad = against(None, path, LD_LIBRARY_PATH=str(old.parent))

    assert good.would_load is True
    assert (
        bad.missing_other_symbols,
        bad.missing_versions,
        bad.would_load,
    ) == (("__nvJitLinkAddData_12_6",), (), False)


def test_pythons_symbols_are_the_interpreters(build: Build, tmp_path: Path) -> None:
    """Python's C API is there; a function of another Python is missing from this one, and from nobody else."""
    path = build(tmp_path / "e.so", needing("PyObject_GetAttr", "_Py_FunctionOfAnotherPython"))
    answer = against(None, path)

    assert answer.missing_python_symbols == ("_Py_FunctionOfAnotherPython",)
    assert (answer.missing_torch_symbols, answer.unjudged_symbols, answer.would_load) == ((), (), False)
    assert "undefined symbol: _Py_FunctionOfAnotherPython" in really_load(path, torch=False)[0]


def test_without_an_interpreter_pythons_symbols_are_passed(build: Build, tmp_path: Path) -> None:
    """Nothing can be said of them, and nothing is."""
    path = build(tmp_path / "e.so", needing("PyObject_GetAttr"))
    with LoaderView(torch_lib=None, interpreter=None) as view:
        answer = examine_extension(path, view)

    assert isinstance(answer, Extension)
    assert (answer.missing_python_symbols, answer.unjudged_symbols) == ((), ())


def test_libraries_that_the_package_brings_count(build: Build, made_up_torch: TorchMaker) -> None:
    """A broken library beside a thin binding breaks it; what it asks of glibc is the binding's need as well."""
    lib = made_up_torch()
    package = lib.parent.parent / "package"
    inner = build(
        package / "libinner.so",
        needing("_ZN2at4_ops4goneE", "memcpy"),
        "-Wl,-soname,libinner.so",
        lib / "libtorch_cpu.so",
    )
    path = build(package / "e.so", "int entry(void); int own(void) { return entry(); }", inner)
    answer = against(lib, path)

    assert ([inner], (), False) == (list(answer.broken_dependencies), answer.missing_torch_symbols, answer.would_load)
    assert answer.glibc_needed is not None
    assert answer.glibc_needed.library == "libc.so.6"


def test_bundled_cuda_libraries_are_told_apart(build: Build, tmp_path: Path) -> None:
    """auditwheel's renamed copy is the extension's own and says nothing of torch's CUDA."""
    names = ["libcudart.41118559.so.12", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9"]
    links = [build(tmp_path / name, exporting(f"f{index}"), f"-Wl,-soname,{name}") for index, name in enumerate(names)]
    path = build(tmp_path / "e.so", needing(), "-Wl,--no-as-needed", *links)
    answer = against(None, path)

    assert answer.cudart_major is None
    assert [(each.name, each.major, each.bundled) for each in answer.cuda_libraries] == [
        ("libcudart", 12, True),
        ("libcublasLt", 13, False),
        ("libcublas", 13, False),
        ("libcudnn", 9, False),
    ]


def test_torchs_own_libraries_can_be_examined(here: LoaderView, torch_lib: Path) -> None:
    """torch's libraries are extensions like any other: this torch's all load."""
    answers = {path.name: examine_extension(path, here) for path in sorted(torch_lib.glob("*.so"))}

    assert {
        name: answer
        for name, answer in answers.items()
        if not isinstance(answer, Extension) or answer.would_load is not True
    } == {}


def test_every_extension_of_this_environment_loads(here: LoaderView) -> None:
    """Each compiled module that site-packages holds for this Python: no false alarm."""
    suffixes = (sysconfig.get_config_var("EXT_SUFFIX"), ".abi3.so")
    paths = [path for path in Path(sysconfig.get_paths()["platlib"]).rglob("*.so") if path.name.endswith(suffixes)]
    answers = [(path, examine_extension(path, here)) for path in paths]

    assert len(paths) > 5
    assert [
        (path, answer) for path, answer in answers if not isinstance(answer, Extension) or answer.would_load is not True
    ] == []
