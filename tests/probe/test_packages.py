"""Packages from metadata alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.fix.packages.installed import every_installed
from attn_doctor.model.facts import Absent, FactSet, Known, Unknown
from attn_doctor.probe.packages import packages, torch_files
from attn_doctor.probe.packages.packages import take_inventory

MARKERS = {
    "python_version": "3.11", "python_full_version": "3.11.7", "platform_system": "Linux", "platform_machine": "x86_64",
    "os_name": "posix", "sys_platform": "linux", "implementation_name": "cpython", "implementation_version": "3.11.7",
    "platform_python_implementation": "CPython", "platform_release": "", "platform_version": "",
}  # fmt: skip


def install(
    folder: Path, name: str, version: str, *, requires: tuple[str, ...] = (), module: str = "", **files: str
) -> Path:
    """Lays a distribution into a folder as an installer would."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\nText: none\n")
    for file, text in files.items():
        (info / file.replace("__", ".")).write_text(text)
    if module:
        (folder / module).mkdir(exist_ok=True)
        (folder / module / "__init__.py").write_text("")
    return info


def facts(*folders: Path) -> FactSet:
    return FactSet(packages.probe(take_inventory(folders), {"markers": MARKERS}))


def test_versions_and_places(tmp_path: Path) -> None:
    """Version, folder and wheel tag come from the dist-info."""
    install(tmp_path, "flash-attn", "2.8.3", module="flash_attn", WHEEL="Tag: cp311-cp311-linux_x86_64\n")
    seen = facts(tmp_path)

    assert seen.value("package.flash-attn.version") == "2.8.3"
    assert seen.value("package.flash-attn.path") == str(tmp_path)
    assert seen.value("package.flash-attn.wheel_tag") == "cp311-cp311-linux_x86_64"
    assert seen.fact("package.xformers.version").state == Absent("not there")


def test_the_label_of_a_variant(tmp_path: Path) -> None:
    """From variant.json, where the wheel is one."""
    label = '{"variants": {"cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}}}'
    info = install(tmp_path, "flash-attn", "2.8.3")
    (info / "variant.json").write_text(label)
    install(tmp_path, "xformers", "0.0.35")
    (install(tmp_path, "einops", "0.8.2") / "variant.json").write_text("[")
    seen = facts(tmp_path)

    assert seen.value("package.flash-attn.variant") == "cu130"
    assert isinstance(seen.fact("package.xformers.variant").state, Absent)


def test_spelling_does_not_matter(tmp_path: Path) -> None:
    """flash_attn, Flash.Attn and flash-attn are one distribution."""
    install(tmp_path, "Flash.Attn", "2.8.3")

    assert facts(tmp_path).value("package.flash-attn.version") == "2.8.3"


def test_installed_twice(tmp_path: Path) -> None:
    """The first one on the path wins, the other is named."""
    install(tmp_path / "a", "triton", "3.6.0")
    other = install(tmp_path / "b", "triton", "2.2.0")
    seen = facts(tmp_path / "a", tmp_path / "b")

    assert seen.value("package.triton.version") == "3.6.0"
    assert seen.value("package.triton.duplicates") == (f"{other} (2.2.0)",)


def test_a_linked_folder_is_no_second_install(tmp_path: Path) -> None:
    """lib64 is often a link to lib."""
    install(tmp_path / "lib", "triton", "3.6.0")
    (tmp_path / "lib64").symlink_to(tmp_path / "lib")

    assert isinstance(facts(tmp_path / "lib", tmp_path / "lib64").fact("package.triton.duplicates").state, Absent)


def test_shadowed(tmp_path: Path) -> None:
    """A folder earlier on the path takes the import name of an installed package."""
    install(tmp_path / "site", "triton", "3.6.0", module="triton")
    install(tmp_path / "work", "other", "1.0", module="triton")

    seen = facts(tmp_path / "work", tmp_path / "site")
    assert seen.value("package.triton.shadowed_by") == str(tmp_path / "work" / "triton")
    assert isinstance(facts(tmp_path / "site").fact("package.triton.shadowed_by").state, Absent)


def test_a_folder_without_init_takes_no_name(tmp_path: Path) -> None:
    """Python goes on along the path (PEP 420), and the parts of a namespace that has no such file add up."""
    install(tmp_path / "site", "triton", "3.6.0", module="triton")
    install(tmp_path / "site", "nvidia-cudnn-cu13", "9.19.0")
    for folder in ("work/triton", "work/nvidia/cuda_runtime", "site/nvidia/cudnn"):
        (tmp_path / folder).mkdir(parents=True)

    seen = facts(tmp_path / "work", tmp_path / "site")
    assert isinstance(seen.fact("package.triton.shadowed_by").state, Absent)
    assert isinstance(seen.fact("package.nvidia-cudnn-cu13.shadowed_by").state, Absent)
    assert take_inventory((tmp_path / "work", tmp_path / "site")).modules["triton"] == tmp_path / "site" / "triton"


def test_editable(tmp_path: Path) -> None:
    """An editable install lies where its source lies."""
    install(
        tmp_path,
        "xformers",
        "0.0.35",
        direct_url__json='{"url": "file:///src/xf%20ormers", "dir_info": {"editable": true}}',
    )
    seen = facts(tmp_path)

    assert seen.value("package.xformers.editable") is True
    assert seen.value("package.xformers.path") == "/src/xf ormers"


def test_secrets_stay_out(tmp_path: Path) -> None:
    """User and password of a private index do not get into a report."""
    install(tmp_path, "xformers", "0.0.35", direct_url__json='{"url": "https://me:token@host.example/x.whl"}')

    assert facts(tmp_path).value("package.xformers.source") == "https://host.example/x.whl"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda info: (info / "METADATA").write_bytes(b"\0\xff" * 999), "binary garbage"),
        (lambda info: (info / "METADATA").write_text(""), "empty"),
        (lambda info: (info / "METADATA").unlink(), "missing"),
        (lambda info: (info / "METADATA").write_text("no: thing\n"), "names no package"),
        (lambda info: (info / "METADATA").write_text("Name: triton\nVersion: not a version\n"), "is none"),
    ],
)
def test_corrupt_metadata(tmp_path: Path, spoil, says: str) -> None:
    """A damaged dist-info is named as what it is; the version its folder's name tells is still told."""
    spoil(install(tmp_path, "triton", "3.6.0"))
    seen = facts(tmp_path)

    assert says in str(seen.value("package.triton.metadata_error"))
    assert seen.value("package.triton.version") == "3.6.0"


def test_no_version_at_all(tmp_path: Path) -> None:
    """Where nothing tells the version it is unknown, not absent."""
    info = tmp_path / "triton.dist-info"
    info.mkdir()

    assert isinstance(facts(tmp_path).fact("package.triton.version").state, Unknown)


def test_whoever_needs_torch_is_of_interest(tmp_path: Path) -> None:
    """A package that nobody has heard of is listed when it needs torch, not when only an extra of it does."""
    install(tmp_path, "my-kernels", "1.0", requires=("torch==2.8.0",))
    install(tmp_path, "datasets", "1.0", requires=("torch; extra == 'torch'", "numpy"))
    seen = facts(tmp_path)

    assert seen.value("package.my-kernels.requires_torch") == "==2.8.0"
    assert "datasets" not in seen.subjects("package")
    assert seen.value("listed.package") == 2


def test_the_triton_that_torch_wants(tmp_path: Path) -> None:
    """Markers are read for the interpreter examined, not for the doctor's."""
    install(tmp_path, "torch", "2.13.0", requires=('triton==3.7.1; platform_system == "Linux"',))
    assert facts(tmp_path).value("torch.triton_requirement") == "==3.7.1"
    other = packages.probe(take_inventory([tmp_path]), {"markers": {**MARKERS, "platform_system": "Darwin"}})

    assert isinstance(FactSet(other).fact("torch.triton_requirement").state, Absent)


def test_stubs_without_metadata_are_imported_too(tmp_path: Path) -> None:
    """What to import is decided by what the path offers."""
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")

    assert take_inventory([tmp_path]).imports() == ("flash_attn", "flash_attn_2_cuda")


def test_sources_on_the_path_are_imported_by_what_tells(tmp_path: Path) -> None:
    """A library without metadata is imported as an installed one is; what lies in another's namespace is not."""
    for folder in ("fla", "xformers", "transformer_engine", "flash_attn/cute"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "flash_attn" / "__init__.py").touch()

    found = take_inventory([tmp_path]).imports()

    assert set(found) == {"flash_attn", "fla.ops", "xformers.ops", "transformer_engine.pytorch"}


def test_flash_attn_4_alone(tmp_path: Path) -> None:
    """It lies in flash-attn 2's namespace, which is then no flash-attn 2 to be imported."""
    install(tmp_path, "flash-attn-4", "4.0.0b36")
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)
    assert take_inventory([tmp_path]).imports() == ("flash_attn.cute",)

    (tmp_path / "flash_attn" / "__init__.py").touch()
    assert take_inventory([tmp_path]).imports() == ("flash_attn", "flash_attn.cute")


@pytest.mark.parametrize(
    ("text", "cuda", "hip"),
    [
        (
            "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n",
            Absent("cuda = None"),
            None,
        ),
        ("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n", Known("13.0"), None),
        ("__version__ = '2.11.0'\n", Unknown("torch/version.py does not set cuda"), None),
    ],
)
def test_torch_version_file(tmp_path: Path, text: str, cuda, hip) -> None:
    """The CUDA that torch was built for is read from its version file."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text)

    assert FactSet(torch_files.probe({"torch": tmp_path / "torch"})).fact("torch.cuda").state == cuda


@pytest.mark.parametrize("garbage", [b"\0\xff", b"def (", b"x" * 10])
def test_torch_version_file_garbage(tmp_path: Path, garbage: bytes) -> None:
    """A damaged version file leaves torch's facts unknown."""
    (tmp_path / "version.py").write_bytes(garbage)

    assert isinstance(FactSet(torch_files.probe({"torch": tmp_path})).fact("torch.version").state, Unknown)


RECORD = "{module}/__init__.py,sha256=x,0\n{module}/ops/chunk.py,sha256=x,0\n"


@pytest.mark.parametrize(
    ("name", "version", "module", "library"),
    [
        ("fla", "0.1", "fla", "flash-linear-attention"),
        ("flash-attn-of-a-vendor", "2.8.3+x", "flash_attn", "flash-attn"),
        ("triton-of-a-vendor", "3.6.0+git1", "triton", "triton"),
        ("torch-of-a-vendor", "2.9.0a0", "torch", "torch"),
    ],
)
def test_a_library_under_another_name(tmp_path: Path, name: str, version: str, module: str, library: str) -> None:
    """A source build or a vendor renames the distribution; what is imported, and what recipes ask for, stays."""
    install(tmp_path, name, version, module=module, RECORD=RECORD.format(module=module))
    inventory = take_inventory([tmp_path])
    seen = facts(tmp_path)

    assert seen.value(f"package.{library}.version") == version
    assert seen.value(f"package.{library}.distribution") == name
    assert f"package.{name}.version" not in {str(fact.name) for fact in seen.values()}
    assert module == "torch" or any(one.partition(".")[0] == module for one in inventory.imports())


def test_another_name_counts_where_no_known_one_does(tmp_path: Path) -> None:
    """A plugin that lays files beside a known library's is not the library."""
    install(tmp_path, "fla-core", "0.5.0", module="fla", RECORD=RECORD.format(module="fla"))
    install(tmp_path, "fla-extras", "9.9", RECORD=RECORD.format(module="fla"))
    seen = facts(tmp_path)

    assert seen.value("package.fla-core.version") == "0.5.0"
    assert isinstance(seen.fact("package.fla-core.distribution").state, Absent)
    assert seen.value("package.flash-linear-attention.version") is None


def test_a_common_module_name_proves_no_library(tmp_path: Path) -> None:
    """`kernels` and `cutlass` are names of more than one package."""
    for module in ("kernels", "cutlass"):
        install(tmp_path, f"my-{module}", "1.0", module=module, RECORD=RECORD.format(module=module))
    seen = facts(tmp_path)

    assert seen.value("package.kernels.version") is None
    assert seen.value("package.nvidia-cutlass-dsl.version") is None


def test_an_editable_install_under_another_name(tmp_path: Path) -> None:
    """An import hook finds it, not the path: the folder that its direct_url.json names holds the module."""
    (tmp_path / "src" / "fla").mkdir(parents=True)
    (tmp_path / "src" / "fla" / "__init__.py").touch()
    direct = f'{{"url": "file://{tmp_path}/src", "dir_info": {{"editable": true}}}}'
    install(tmp_path / "site", "fla", "0.1", direct_url__json=direct)
    seen = facts(tmp_path / "site")

    assert seen.value("package.flash-linear-attention.version") == "0.1"
    assert seen.value("package.flash-linear-attention.path") == str(tmp_path / "src")


def test_what_a_broken_off_uninstall_left(tmp_path: Path) -> None:
    """It is no package, whatever its metadata says: it counts for nothing, and is listed with what is gone."""
    install(tmp_path, "xformers", "0.0.33.post1", requires=("torch==2.9.0",), module="xformers")
    install(tmp_path, "numpy", "2.4.6", module="numpy")
    for name, spoiled in (
        ("xformers", "~formers"),
        ("xformers-0.0.33.post1.dist-info", "~formers-0.0.33.post1.dist-info"),
    ):
        (tmp_path / name).rename(tmp_path / spoiled)
    (tmp_path / "~umpy").mkdir()
    inventory = take_inventory([tmp_path])
    seen = facts(tmp_path)

    assert (inventory.count, [one.name for one in inventory.distributions]) == (1, [])
    assert seen.value("environment.leftovers") == tuple(
        str(tmp_path / one) for one in ("~formers", "~formers-0.0.33.post1.dist-info", "~umpy")
    )
    assert seen.value("environment.uninstalled") == ("xformers==0.0.33.post1",)
    assert [one.name for one in every_installed([str(tmp_path)])] == ["numpy"]


def test_an_upgrade_that_was_broken_off_later(tmp_path: Path) -> None:
    """The new release is in place: nothing is gone."""
    install(tmp_path, "xformers", "0.0.35", module="xformers")
    install(tmp_path / "old", "xformers", "0.0.34").rename(tmp_path / "~formers-0.0.34.dist-info")
    seen = facts(tmp_path)

    assert seen.value("package.xformers.version") == "0.0.35"
    assert isinstance(seen.fact("environment.uninstalled").state, Absent)
    assert isinstance(facts(tmp_path / "old").fact("environment.leftovers").state, Absent)


@pytest.mark.parametrize(
    ("theirs", "told"),
    [("fla/ops/gla.py,sha256=B,9", "flash-linear-attention and fla-core"), ("fla/ops/gla.py,sha256=A,9", None)],
)
def test_two_that_wrote_one_folder(tmp_path: Path, theirs: str, told: str | None) -> None:
    """One file with two hashes: one lies over the other. Equal files and compiled ones do no harm."""
    install(tmp_path, "flash-linear-attention", "0.3.0", RECORD="fla/ops/gla.py,sha256=A,9\nfla/a.pyc,sha256=C,9\n")
    install(tmp_path, "fla-core", "0.6.0", RECORD=f"{theirs}\nfla/a.pyc,sha256=D,9\nfla/b.py,,\n")
    seen = facts(tmp_path)
    found = {seen.text(f"package.{one}.overlaps") for one in ("flash-linear-attention", "fla-core")} - {None}

    assert {frozenset(one.split(" and ")) for one in found if one} == (
        {frozenset(told.split(" and "))} if told else set()
    )
