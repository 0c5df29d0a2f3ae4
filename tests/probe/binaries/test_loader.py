"""Which file would be loaded: the same as the real loader's choice, and what `import torch` has loaded before."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import (
    Extension,
    Found,
    LoaderView,
    Reason,
    Unreadable,
    examine_extension,
    shadowed_libraries,
)
from attn_doctor.probe.binaries.reader import ElfFile
from attn_doctor.probe.binaries.search import SearchPath
from tests.probe.binaries.building import Build, exporting, needing, nvidia_library, really_load
from tests.probe.binaries.elf_writer import elf_header, new_ld_cache

NAME = "libattndoctortest.so.1"
SONAME = f"-Wl,-soname,{NAME}"


def view_of(
    environment: dict[str, str] | None = None,
    torch_lib: Path | None = None,
    site_packages: tuple[Path, ...] = (),
    interpreter: Path | None = None,
    root: Path = Path("/"),
) -> LoaderView:
    return LoaderView(
        torch_lib=torch_lib,
        interpreter=interpreter or Path(sys.executable),
        site_packages=site_packages,
        environment=environment,
        root=root,
    )


def examined(path: Path, view: LoaderView) -> Extension:
    answer = examine_extension(path, view)
    assert isinstance(answer, Extension), answer
    return answer


def place_of(name: str, extension: Extension) -> tuple[Path | None, Found | None]:
    return next((each.path, each.found) for each in extension.needed if each.name == name)


@pytest.mark.parametrize("style", ["--disable-new-dtags", "--enable-new-dtags"], ids=["RPATH", "RUNPATH"])
def test_search_order_is_the_real_loaders(build: Build, tmp_path: Path, style: str) -> None:
    """With a copy in every subset of {$ORIGIN path, absolute path, LD_LIBRARY_PATH}: the same file as in reality."""
    tmp_path = tmp_path.resolve()
    library = build(tmp_path / "source" / NAME, exporting("helper"), SONAME)
    places = {"own": tmp_path / "ext" / "own", "fixed": tmp_path / "fixed", "environment": tmp_path / "environment"}
    extension = build(
        tmp_path / "ext" / "extension.so",
        needing("helper"),
        f"-Wl,{style},-rpath,$ORIGIN/own:{places['fixed']}",
        library,
    )
    environment = {"LD_LIBRARY_PATH": f"/nowhere:{places['environment']}"}
    for count in range(4):
        for present in itertools.combinations(places, count):
            for name, folder in places.items():
                folder.mkdir(exist_ok=True)
                (folder / NAME).unlink(missing_ok=True)
                if name in present:
                    (folder / NAME).write_bytes(library.read_bytes())
            error, mapped = really_load(extension, torch=False, environment=environment)
            real = [Path(path) for path in mapped if path.endswith(NAME)]
            with view_of(environment) as view:
                answer = examined(extension, view)
                found, how = place_of(NAME, answer)

            assert real == ([Path(os.path.normpath(found))] if found else []), (present, how)
            assert bool(error) == (answer.would_load is False)
            assert [NAME] * bool(error) == [missing.name for missing in answer.missing_libraries]


def test_rpath_is_handed_down_and_runpath_is_not(build: Build, tmp_path: Path) -> None:
    """The extension's RPATH serves its libraries' libraries; its RUNPATH serves its own only. As in reality."""
    tmp_path = tmp_path.resolve()
    inner = build(tmp_path / "libs" / "libinnertest.so.1", exporting("inner"), "-Wl,-soname,libinnertest.so.1")
    outer = build(tmp_path / "libs" / NAME, needing("inner"), SONAME, inner)
    results = {}
    for style in ("--disable-new-dtags", "--enable-new-dtags"):
        extension = build(
            tmp_path / f"extension{style}.so",
            needing("entry").replace("int entry(void) {", "int own(void) {"),
            f"-Wl,{style},-rpath,$ORIGIN/libs",
            outer,
            "-Wl,--allow-shlib-undefined",
        )
        error, _ = really_load(extension, torch=False)
        with view_of() as view:
            answer = examined(extension, view)
        results[style] = [missing.name for missing in answer.missing_libraries]

        assert bool(error) == bool(results[style])

    assert results == {"--disable-new-dtags": [], "--enable-new-dtags": ["libinnertest.so.1"]}


def test_the_executables_rpath_serves_extensions(build: Build, compiler: str, tmp_path: Path) -> None:
    """As with conda's python, whose RPATH is $ORIGIN/../lib; reached through a link as in a virtual environment."""
    import subprocess

    tmp_path = tmp_path.resolve()
    library = build(tmp_path / "conda" / "lib" / NAME, exporting("helper"), SONAME)
    python = tmp_path / "conda" / "bin" / "python"
    python.parent.mkdir()
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    flags = ["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"]
    subprocess.run([compiler, "-x", "c", tmp_path / "main.c", "-o", python, *flags], check=True)
    linked = tmp_path / "venv" / "bin" / "python"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(python)
    plain = build(tmp_path / "plain.so", needing("helper"), library)
    own = build(tmp_path / "own.so", needing("helper"), library, "-Wl,--enable-new-dtags,-rpath,/nowhere")
    with view_of(interpreter=linked) as view:
        assert (examined(plain, view).would_load, place_of(NAME, examined(plain, view))[1]) == (True, Found.RPATH)
        # A RUNPATH of the one that asks makes every RPATH void.
        assert examined(own, view).would_load is False


def test_system_libraries_come_from_cache_then_default_folders(build: Build, tmp_path: Path) -> None:
    """Below a made-up root: ld.so.cache first, then the folders, and its entries for missing files are passed over."""
    root = tmp_path / "root"
    library = build(tmp_path / NAME, exporting("helper"), SONAME)
    extension = build(tmp_path / "extension.so", needing("helper"), library)
    in_folder = root / "usr" / "lib64" / NAME
    in_cache = root / "opt" / NAME
    for path in (in_folder, in_cache):
        path.parent.mkdir(parents=True)
        path.write_bytes(library.read_bytes())
    with ElfFile(str(extension)) as elf:
        flags = {62: 0x0303, 183: 0x0A03}.get(elf.machine, 3)
    entries = [(NAME, "/gone/" + NAME, flags, 0), (NAME, "/opt/" + NAME, flags, 0)]
    (root / "etc").mkdir()
    (root / "etc" / "ld.so.cache").write_bytes(new_ld_cache(entries))
    with view_of(root=root) as view:
        assert (in_cache, Found.CACHE) == place_of(NAME, examined(extension, view))
    in_cache.unlink()
    with view_of(root=root) as view:
        assert (in_folder, Found.DEFAULT) == place_of(NAME, examined(extension, view))


def test_a_library_for_another_processor_is_passed_over(build: Build, tmp_path: Path) -> None:
    """The loader goes on to the next folder; on garbage it stops, and so do we, with the reason."""
    library = build(tmp_path / "good" / NAME, exporting("helper"), SONAME)
    extension = build(tmp_path / "extension.so", needing("helper"), library)
    bad = tmp_path / "bad" / NAME
    bad.parent.mkdir()
    environment = {"LD_LIBRARY_PATH": f"{bad.parent}:{library.parent}"}
    for content, loads in ((elf_header(machine=20), True), (elf_header(bits=1), True), (b"garbage" * 20, False)):
        bad.write_bytes(content)
        error, _ = really_load(extension, torch=False, environment=environment)
        with view_of(environment) as view:
            answer = examined(extension, view)

        assert (loads, not error) == (answer.would_load is True, loads)
        assert [bad] * (not loads) == [unreadable.path for unreadable in answer.unreadable_libraries]
        assert answer.missing_libraries == ()


def test_preloaded_libraries_are_there(build: Build, tmp_path: Path) -> None:
    """What LD_PRELOAD brings serves an extension that does not even name it. As in reality."""
    library = build(tmp_path / NAME, exporting("helper"), SONAME)
    extension = build(tmp_path / "extension.so", needing("helper"))
    with view_of({"LD_PRELOAD": str(library)}) as view:
        assert examined(extension, view).would_load is True
    with view_of() as view:
        assert examined(extension, view).would_load is None
    assert [
        really_load(extension, torch=False, environment={"LD_PRELOAD": str(library)})[0],
        "undefined symbol: helper" in really_load(extension, torch=False)[0],
    ] == ["", True]


def test_a_neighbour_is_taken_to_be_loaded_by_its_package(build: Build, tmp_path: Path) -> None:
    """torchaudio's way: no RPATH, but the package loads the other library first. In packages only."""
    site = tmp_path / "site-packages"
    library = build(site / "package" / NAME, exporting("helper"), SONAME)
    inside = build(site / "package" / "extension.so", needing("helper"), library)
    outside = build(tmp_path / "elsewhere" / "extension.so", needing("helper"), library)
    (outside.parent / NAME).write_bytes(library.read_bytes())
    with view_of(site_packages=(site,)) as view:
        assert (library, Found.BESIDE) == place_of(NAME, examined(inside, view))
        assert place_of(NAME, examined(outside, view)) == (None, None)


def test_loaded_libraries_are_known_by_soname_and_by_file(build: Build, tmp_path: Path) -> None:
    """A name that torch has loaded is not searched again, wherever it came from; one file is loaded once."""
    site = tmp_path / "site-packages"
    library = build(site / "bundle" / "libhelper-0a1b2c3d.so.1", exporting("helper"), SONAME)
    (site / "bundle" / NAME).symlink_to(library)
    extension = build(site / "extension.so", needing("helper"), library, "-Wl,-rpath,$ORIGIN/bundle")
    with view_of(site_packages=(site,)) as view:
        loaded, scope = view.load(extension)

        assert [name for name in loaded.elf.needed if "attndoctor" in name] == [NAME]
        assert len([each for each in scope.libraries if each.elf.soname == NAME]) == 1


def test_torchs_own_libraries_are_those_that_import_torch_maps(here: LoaderView, torch_lib: Path) -> None:
    """The base of the view is what a process has after `import torch`, among torch's libraries and the C++ runtime."""
    loaded_by_torch = really_load(torch_lib / "libc10.so", torch=True)[1]
    interesting = ("/torch/lib/", "libstdc++", "libgcc_s", "/nvidia/")
    real = {os.path.realpath(path) for path in loaded_by_torch if any(part in path for part in interesting)}
    ours = {os.path.realpath(each.elf.path) for each in here.base.libraries}

    assert {path for path in ours if any(part in path for part in interesting)} == real
    assert here.base.missing == []
    assert here.base.unreadable == []


def test_cuda_libraries_of_wheels_are_loaded_as_torch_loads_them(
    build: Build, made_up_torch: Callable[..., Path], tmp_path: Path
) -> None:
    """libcudart lies in an nvidia-* wheel without any RPATH to it: torch loads it by path, then it serves all."""
    lib = made_up_torch(cuda=12)
    site = lib.parent.parent
    loose = nvidia_library(build, site, "nvjpeg", "libnvjpeg.so.12", "nvjpegCreate")
    cudart = site / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12"
    extension = build(site / "p" / "e.so", needing("cudaMalloc", "nvjpegCreate"), cudart, loose)
    with view_of(torch_lib=lib, site_packages=(site,)) as view:
        answer = examined(extension, view)

        assert (cudart, Found.LOADED) == place_of("libcudart.so.12", answer)
        assert view.base.missing == []
    # Installed, but torch does not load this one, and no path leads to it: missing, and where it lies.
    assert [("libnvjpeg.so.12", loose)] == [(each.name, each.lies_at) for each in answer.missing_libraries]


@pytest.mark.parametrize("layout", ["cuda_runtime", "cu13"])
def test_both_layouts_of_the_nvidia_wheels(
    build: Build, made_up_torch: Callable[..., Path], tmp_path: Path, layout: str
) -> None:
    """A folder a library, or since CUDA 13 one folder for all."""
    lib = made_up_torch(cuda=13)
    site = lib.parent.parent
    (site / "nvidia" / "cuda_runtime").rename(site / "nvidia" / layout) if layout != "cuda_runtime" else None
    cudart = site / "nvidia" / layout / "lib" / "libcudart.so.13"
    with view_of(torch_lib=lib, site_packages=(site,)) as view:
        assert str(cudart) == view.base.by_name["libcudart.so.13"].elf.path


def test_a_shadowing_library_is_the_one_that_counts(
    build: Build, made_up_torch: Callable[..., Path], tmp_path: Path
) -> None:
    """An old NCCL on LD_LIBRARY_PATH gets in before the wheel's: its lack is another library's, not torch's."""
    lib = made_up_torch(cuda=12)
    site = lib.parent.parent
    nccl = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    extension = build(site / "p" / "e.so", needing("ncclCommInitAll"), nccl)
    with view_of(torch_lib=lib, site_packages=(site,)) as view:
        assert examined(extension, view).would_load is True
    old = nvidia_library(build, tmp_path / "module", "nccl", "libnccl.so.2", "ncclOther")
    with view_of({"LD_LIBRARY_PATH": str(old.parent)}, torch_lib=lib, site_packages=(site,)) as view:
        # libcudart is not on the path: torch then loads all of the wheels' libraries by file, and NCCL with them.
        assert examined(extension, view).would_load is True
        assert shadowed_libraries(view) == ()
    cudart = site / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12"
    nvidia_library(build, tmp_path / "module", "nccl", "libcudart.so.12", "cudaMalloc", "cudaFree")
    with view_of({"LD_LIBRARY_PATH": str(old.parent)}, torch_lib=lib, site_packages=(site,)) as view:
        answer = examined(extension, view)

        shadowed = shadowed_libraries(view)

    assert [(each.name, each.loaded_file, each.wheel_file, each.found) for each in shadowed] == [
        (file.name, old.parent / file.name, file, Found.LD_LIBRARY_PATH) for file in (nccl, cudart)
    ]
    assert (answer.missing_torch_symbols, answer.missing_other_symbols) == ((), ("ncclCommInitAll",))
    assert (old, Found.LOADED) == (place_of("libnccl.so.2", answer)[0], Found.LOADED)
    assert answer.would_load is False


def test_places_that_are_not_there(tmp_path: Path) -> None:
    """An interpreter that is a script or missing, a torch folder that is empty: told, and the view still answers."""
    script = tmp_path / "python"
    script.write_text('#!/bin/sh\nexec /usr/bin/python3 "$@" # a wrapper around the real interpreter\n')
    looped = tmp_path / "looped"
    looped.symlink_to(looped)
    for interpreter in (script, tmp_path / "missing", looped, tmp_path):
        with LoaderView(torch_lib=tmp_path, interpreter=interpreter, site_packages=(tmp_path / "no",)) as view:
            assert interpreter == view.base.unreadable[0].path
            assert isinstance(examine_extension(tmp_path / "extension.so", view), Unreadable)
            assert "libc10.so" not in view.base.by_name


def test_an_extension_for_another_processor_is_not_examined(tmp_path: Path, no_torch: LoaderView) -> None:
    """An aarch64 wheel on x86_64, or the other way round."""
    other = {62: 183}.get(no_torch.machine, 62)
    path = tmp_path / "extension.so"
    path.write_bytes(elf_header(machine=other))
    answer = examine_extension(path, no_torch)

    assert isinstance(answer, Unreadable)
    assert (Reason.OTHER_MACHINE, {62: "x86_64", 183: "aarch64"}[other]) == (answer.reason, answer.detail)


def test_lib_token_and_empty_parts(build: Build, tmp_path: Path) -> None:
    """$LIB is the system's word for its library folder; an empty part of a path is nothing to search."""
    extension = build(tmp_path / "e.so", needing("x"), "-Wl,--enable-new-dtags,-rpath,:/opt/$LIB::${ORIGIN}/x")
    with ElfFile(str(extension)) as elf:
        search = SearchPath({"LD_LIBRARY_PATH": ";/one::"}, tmp_path, elf.machine)
        places = [place for place, _ in search.candidates("l.so", (elf,))]

    assert places[0] == "/one/l.so"
    assert "/opt/lib64/l.so" in places
    assert f"{tmp_path}/x/l.so" in places
    assert "/l.so" not in places
