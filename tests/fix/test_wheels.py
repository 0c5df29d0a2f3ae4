"""Published wheels: which one fits, what is said where none does, and what is made of a file that a person named."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.derived import derive
from attn_doctor.fix.packages import wheel_file
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Unknown
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.planning import planned_set, preview_install
from attn_doctor.recipes.data.wheels import Node, NoWheel, fitting, node_of
from tests.fix import wheel_house
from tests.fix.wheel_house import TAG

RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download/"


def node(
    torch: str = "2.8", cuda: str = "12.8", python: str = "3.12", *, new_abi: bool = True, glibc: str = "2.35",
    platform: str = "linux_x86_64", gpus: tuple[str, ...] = ("9.0",),
) -> Node:  # fmt: skip
    return Node(
        torch=torch, cuda=cuda, python=python, new_abi=new_abi, glibc=glibc, platform=platform, gpus=gpus
    )  # fmt: skip


@pytest.mark.parametrize(
    ("here", "wanted", "file"),
    [
        (node(), "", "v2.8.3.post1/flash_attn-2.8.3.post1%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"),
        # Added later for one Python alone: https://github.com/Dao-AILab/flash-attention/issues/2212
        (
            node(torch="2.9", cuda="13.0"),
            "",
            "v2.8.3/flash_attn-2.8.3%2Bcu13torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        ),
        # https://github.com/Dao-AILab/flash-attention/issues/1717: pip's torch 2.6 has the old ABI
        (
            node("2.6", "12.4", new_abi=False),
            "",
            "v2.7.4.post1/flash_attn-2.7.4.post1%2Bcu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl",
        ),
        (
            node("2.3", "12.1", "3.10", new_abi=False),
            "<2.7",
            "v2.6.3/flash_attn-2.6.3%2Bcu123torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
        ),
        (
            node("2.3", "11.8", "3.10", new_abi=False),
            "==2.5.8",
            "v2.5.8/flash_attn-2.5.8%2Bcu118torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
        ),
        (
            node("2.6", "12.6", glibc="2.28"),
            "",
            "v2.7.4.post1/flash_attn-2.7.4.post1%2Bcu12torch2.6cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        ),
    ],
)
def test_the_one_that_fits(here: Node, wanted: str, file: str) -> None:
    """Version, CUDA, torch, ABI, Python and platform stand in its name; an old glibc takes an older release."""
    assert fitting("flash-attn", here, wanted).url == RELEASES + file


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (node("2.11"), "torch 2.4 to 2.8, not 2.11"),
        (node("2.8", "13.0"), "CUDA 12, and this torch is for 13.0"),
        (node(python="3.14"), "Python 3.9 to 3.13, not 3.14"),
        (node(glibc="2.31"), "need glibc 2.32"),
        (node(gpus=("7.5",)), "no code for compute capability 7.5"),
        (node("2.6", glibc="2.31", gpus=("12.0",)), "glibc"),
        (node(platform="linux_aarch64"), "linux_x86_64, not for linux_aarch64"),
    ],
)
def test_where_there_is_none(here: Node, words: str) -> None:
    """It says which part of the name there is no wheel for."""
    with pytest.raises(NoWheel, match=words):
        fitting("flash-attn", here)


@given(st.text(max_size=12))
def test_any_specifier_is_an_answer(wanted: str) -> None:
    """What stands in a recipe, filled from a fact, finds a wheel or a reason, never a traceback."""
    with contextlib.suppress(NoWheel):
        assert fitting("flash-attn", node(), wanted).url.startswith(RELEASES)


def _facts(**states: State) -> FactSet:
    known: dict[str, State] = {
        "torch.version": Known("2.8.0+cu128"),
        "torch.cuda": Known("12.8"),
        "torch.cxx11_abi": Known(True),
        "python.version": Known("3.12.4"),
        "node.machine": Known("x86_64"),
        "libc.version": Known("2.35"),
    }
    known |= {name.replace("__", "."): state for name, state in states.items()}
    return FactSet(Fact(name=FactName.parse(name), state=state, how="test") for name, state in known.items())


def test_the_node_comes_from_its_facts() -> None:
    """As an examination found them."""
    assert fitting("flash-attn", node_of(_facts())).version == "2.8.3.post1"


@pytest.mark.parametrize(
    "states",
    [
        {"torch__version": Known("2.6.0a0+ecf3bae40a.nv25.1")},
        {"torch__version": Unknown("hangs")},
        {"torch__version": Known("evil/../../x")},
        {"torch__cuda": Absent("a CPU build")},
        {"torch__cxx11_abi": Unknown("cannot be read")},
        {"python__version": Absent()},
    ],
)
def test_what_is_not_known_is_no_wheel(states: dict[str, State]) -> None:
    """Nobody guesses; the torch of NVIDIA's containers has the interface of no release."""
    with pytest.raises(NoWheel):
        node_of(_facts(**states))


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """This Python, with an empty folder for packages."""
    site = tmp_path / "site"
    site.mkdir()
    told = {
        "version": ".".join(map(str, sys.version_info[:3])), "machine": "x86_64", "platform_tag": "linux-x86_64",
        "libc": "glibc 2.36", "prefix": str(tmp_path), "purelib": str(site), "platlib": str(site),
        "sys_path": [str(site), *sys.path], "markers": {},
    }  # fmt: skip
    return Target(python=Path(sys.executable), because="test", environment_kind="venv", told=told)


class TestNamed:
    """The file is what it says, and for this Python."""

    def test_published_ones_say_more_in_their_name(self, tmp_path: Path, target: Target) -> None:
        """+cu12torch2.8cxx11abiTRUE stands in the name alone; the metadata's version counts."""
        name = f"flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-{TAG}-{TAG}-linux_x86_64.whl"
        file = wheel_house.wheel(tmp_path, name, ("flash-attn", "2.8.3"), {})
        found = wheel_file.read(file, target)

        assert (found.package, found.version) == ("flash-attn", "2.8.3")

    @pytest.mark.parametrize(
        ("name", "metadata", "words"),
        [
            ("flash_attn-2.8.3-cp27-cp27mu-linux_x86_64.whl", ("flash-attn", "2.8.3"), "is for cp27"),
            (f"flash_attn-2.8.3-{TAG}-{TAG}-win_amd64.whl", ("flash-attn", "2.8.3"), "win_amd64"),
            (f"flash_attn-2.8.3-{TAG}-{TAG}-linux_aarch64.whl", ("flash-attn", "2.8.3"), "aarch64"),
            (f"flash_attn-2.8.3-{TAG}-{TAG}-musllinux_1_2_x86_64.whl", ("flash-attn", "2.8.3"), "musllinux"),
            ("flash_attn-2.8.3-py3-none-any.whl", ("evil", "2.8.3"), "metadata is that of evil"),
            ("flash_attn-2.8.3-py3-none-any.whl", ("flash-attn", "2.7.0"), "metadata says 2.7.0"),
            ("flash_attn-2.8.3-py3-none-any.whl", ("flash-attn", "2.8.3; rm -rf /"), "no version"),
            ("flash_attn-2.8.3-py3-none-any.whl", ("--index-url=x", "2.8.3"), "no package name"),
            ("flash_attn.whl", ("flash-attn", "2.8.3"), "not named as a wheel"),
            ("--evil-1.0-py3-none-any.whl", ("evil", "1.0"), "not named as a wheel"),
            ("flash_attn-2.8.3;x-py3-none-any.whl", ("flash-attn", "2.8.3"), "not named as a wheel"),
        ],
    )
    def test_refused(self, tmp_path: Path, target: Target, name: str, metadata: tuple[str, str], words: str) -> None:
        """Another Python, platform or package than it says, and names that are none."""
        file = tmp_path / name
        with zipfile.ZipFile(file, "w") as archive:
            text = f"Metadata-Version: 2.1\nName: {metadata[0]}\nVersion: {metadata[1]}\n"
            archive.writestr("x-1.dist-info/METADATA", text)

        with pytest.raises(Refused, match=words):
            wheel_file.read(file, target)

    @pytest.mark.parametrize("content", [b"", b"<html>Not Found</html>", b"PK\x03\x04cut off"])
    def test_downloads_that_are_none(self, tmp_path: Path, target: Target, content: bytes) -> None:
        """An error page under the name of a wheel."""
        file = tmp_path / "flash_attn-2.8.3-py3-none-any.whl"
        file.write_bytes(content)

        with pytest.raises(Refused, match="is no wheel"):
            wheel_file.read(file, target)

    def test_no_file(self, tmp_path: Path, target: Target) -> None:
        """It says so."""
        with pytest.raises(Refused, match="there is no file"):
            wheel_file.read(tmp_path / "flash_attn-2.8.3-py3-none-any.whl", target)


def _install(file: Path) -> Install:
    change = PackageChange(name="flash-attn", before=None, after="2.8.3", source=file.name)
    return Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False, changes=(change,)
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.skipif(not wheel_house.can_compile(), reason="no compiler, or no torch to compile against")
@pytest.mark.parametrize("fits", [True, False])
def test_its_files_are_held_against_this_torch(tmp_path: Path, target: Target, fits: bool) -> None:
    """A real module: one that this torch loads, and one that wants a function this torch has not."""
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    file = wheel_house.flash_attn(fetched, for_this_torch=fits)
    facts = preview_install.facts_of(_install(file), fetched, target, FactSet(), scratch=tmp_path)
    missing = derive(facts).fact("extension.flash_attn_2_cuda.missing_symbols").state

    assert facts.text("package.flash-attn.version") == "2.8.3"
    assert facts.text("extension.flash_attn_2_cuda.package") == "flash-attn"
    if fits:
        assert isinstance(missing, Absent)
    else:
        assert isinstance(missing, Known)
        assert "forgotten_by_this_release" in str(missing.value)
    # What the files say is what the loader does.
    module = next(fetched.glob("flash_attn_2_cuda*.so"))
    loads = "import torch, importlib.util as u; u.module_from_spec(u.spec_from_file_location('flash_attn_2_cuda', "
    loads += f"{str(module)!r}))"
    assert (subprocess.run([sys.executable, "-c", loads], capture_output=True).returncode == 0) is fits


@pytest.mark.process
@pytest.mark.skipif(not wheel_house.can_compile(), reason="no compiler, or no torch to compile against")
def test_what_is_installed_is_held_against_a_new_torch(tmp_path: Path, target: Target) -> None:
    """A module that this torch loads, and a torch to come whose libc10 has none of what it needs."""
    site, fetched = Path(str(target.told["purelib"])), tmp_path / "fetched"
    fetched.mkdir()
    wheel_house.unpack(wheel_house.flash_attn(tmp_path), site)
    core = wheel_house.library(tmp_path, "libc10.so")
    cpu = wheel_house.library(tmp_path, "libtorch_cpu.so", core)
    python = wheel_house.library(tmp_path, "libtorch_python.so", cpu, core)
    torch = wheel_house.wheel(
        fetched, "torch-9.0-py3-none-any.whl", ("torch", "9.0"),
        {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '9.0'\ncuda = '13.0'\nhip = None\n",
         **{f"torch/lib/{one.name}": one.read_bytes() for one in (core, cpu, python)}},
    )  # fmt: skip
    change = PackageChange(name="torch", before="2.13.0", after="9.0", source=torch.name)
    install = replace(_install(torch), changes=(change,))
    facts = derive(preview_install.facts_of(install, fetched, target, FactSet(), scratch=tmp_path))

    assert (facts.text("torch.version"), facts.text("torch.cuda")) == ("9.0", "13.0")
    assert "c10" in str(facts.value("extension.flash_attn_2_cuda.missing_symbols"))
    assert not planned_set.warnings(install, FactSet())
    assert "flash-attn" in planned_set.warnings(install, facts)[0]


@pytest.mark.parametrize("name", ["../evil.so", "/evil.so", "x/../../evil.so", "a\\..\\evil.so", "x.data/data/evil.so"])
def test_staging_writes_nowhere_else(tmp_path: Path, target: Target, name: str) -> None:
    """A wheel whose paths lead out of it is looked into all the same, without them."""
    fetched, scratch = tmp_path / "fetched", tmp_path / "scratch"
    fetched.mkdir()
    scratch.mkdir()
    before = {path for path in tmp_path.rglob("*") if scratch not in path.parents}
    file = wheel_house.wheel(fetched, "flash_attn-2.8.3-py3-none-any.whl", ("flash-attn", "2.8.3"), {name: b"evil"})
    preview_install.facts_of(_install(file), fetched, target, FactSet(), scratch=scratch)

    assert not list(tmp_path.rglob("*evil*"))
    assert {path for path in tmp_path.rglob("*") if scratch not in path.parents} == {*before, file}
