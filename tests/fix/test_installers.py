"""Which installer works on a target, what it is asked, and what is done where it cannot say what it would do."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from attn_doctor.fix.packages import build_jobs, find_installer, installed, installers, resolve
from attn_doctor.fix.packages.ahead import Ahead, is_exact
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import Install, PackageChange

pytestmark = pytest.mark.process


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """An environment in name: folders, and what an interpreter tells of itself."""
    site = tmp_path / "environment/lib/python3/site-packages"
    site.mkdir(parents=True)
    (tmp_path / "environment/bin").mkdir()
    told = {
        "version": "3.11.7", "prefix": str(tmp_path / "environment"), "base_prefix": "/usr", "has_pip": True,
        "purelib": str(site), "platlib": str(site), "externally_managed": False, "sys_path": [str(site)],
        "markers": {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"},
    }  # fmt: skip
    python = tmp_path / "environment/bin/python"
    return Target(python=python, because="test", environment_kind="venv", told=told)


def found(target: Target, asked: str = "pip", **told: object) -> installers.Installer:
    folder = Path(str(target.told["prefix"])).parent / "private"
    folder.mkdir(exist_ok=True)
    return find_installer.installer_for(
        asked, replace(target, told={**target.told, **told}), installers.Sources(), folder
    )


def plant(target: Target, name: str, version: str) -> None:
    """A distribution's metadata."""
    info = Path(str(target.told["purelib"])) / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("")


class TestFound:
    """uv, the target's pip, ours, or a reason."""

    def test_the_mark_of_a_system_is_not_that_of_its_virtual_environments(self, target: Target) -> None:
        """PEP 668's file lies in the standard library, which a virtual environment shares with its base."""
        assert found(target, externally_managed=True).kind == "pip"
        with pytest.raises(Refused, match="EXTERNALLY-MANAGED"):
            found(target, externally_managed=True, base_prefix=target.told["prefix"])

    @pytest.mark.parametrize(("version", "reports"), [("21.3.1", False), ("22.1.2", False), ("22.2", True)])
    def test_an_old_pip_cannot_say_what_it_would_do(self, target: Target, version: str, reports: bool) -> None:
        """--report came with 22.2."""
        plant(target, "pip", version)

        assert found(target).reports is reports

    def test_an_environment_without_pip(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ours works for it, when it is new enough to; nothing is installed there for it."""
        monkeypatch.setattr("importlib.metadata.version", lambda _: "23.2.1")
        ours = found(target, has_pip=False)
        assert ours.command == (sys.executable, "-m", "pip", "--python", str(target.python))
        assert "environment has none" in ours.whose

        monkeypatch.setattr("importlib.metadata.version", lambda _: "22.2.2")
        with pytest.raises(Refused, match="there is no pip"):
            found(target, has_pip=False)

    def test_pip_is_told_the_index_of_a_torch_backend(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        """uv finds it by the build's name; pip asks it beside the configured one, which holds what else is wanted."""
        monkeypatch.setattr(find_installer.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
        plant(target, "pip", "25.0")
        sources = installers.Sources(torch_backend="cu128")
        pip = find_installer.installer_for("auto", target, sources, Path())

        assert pip.kind == "pip"
        assert pip._sources() == ["--extra-index-url", "https://download.pytorch.org/whl/cu128"]
        assert replace(pip, kind="uv")._sources() == ["--torch-backend", "cu128"]

    @pytest.mark.parametrize("backend", ["auto", "?", "cu128 --pre"])
    def test_what_names_no_build_for_pip(self, target: Target, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
        """Only uv asks the node which build it runs."""
        monkeypatch.setattr(find_installer.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
        with pytest.raises(Refused, match="--torch-backend"):
            find_installer.installer_for("auto", target, installers.Sources(torch_backend=backend), Path())

    @pytest.mark.parametrize(("version", "right"), [("2.13.0+cu126", True), ("2.13.0", False), ("2.13.0+cu130", False)])
    def test_pip_has_to_find_the_build_that_was_wanted(self, target: Target, version: str, right: bool) -> None:
        """An index that does not answer is a warning of pip's, and the registry's build another CUDA's."""
        plant(target, "pip", "25.0")
        installer = replace(found(target), sources=installers.Sources(torch_backend="cu126"))
        releases = (installers.release("torch", version, "torch.whl", {"sha256": "0"}),)
        if right:
            resolve._check_build(installer, releases)
            return
        with pytest.raises(Refused, match=r"not its build cu126.*--index-url"):
            resolve._check_build(installer, releases)

    @pytest.mark.parametrize(("kind", "variable"), [("uv", "UV_DEFAULT_INDEX"), ("pip", "PIP_INDEX_URL")])
    def test_where_a_person_says_where_from(self, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str) -> None:
        """A recipe's torch_backend gives way to any index that a person configured for that installer."""
        for name in (*installers._CONFIGURED["uv"], *installers._CONFIGURED["pip"]):
            monkeypatch.delenv(name, raising=False)
        assert not installers.Sources().named_for(kind)
        assert installers.Sources(no_index=True).named_for(kind)
        monkeypatch.setenv(variable, "https://mirror.example/simple")
        assert installers.Sources().named_for(kind)
        assert not installers.Sources().named_for("uv" if kind == "pip" else "pip")


class TestOldPip:
    """Without --report: the named releases are fetched, and what they need has to be there already."""

    def preview(self, target: Target, house: Path, *, no_deps: bool = False) -> tuple[installers.Release, ...]:
        plant(target, "pip", "21.3.1")
        sources = installers.Sources(no_index=True, find_links=(str(house),))
        # The tests' own pip does the fetching: every pip has `download`.
        installer = replace(found(target), command=(sys.executable, "-m", "pip"), sources=sources)
        return installer.preview(("fine==2.0",), (), no_deps=no_deps, reinstall=False)

    def test_what_it_needs_is_there(self, tmp_path: Path, target: Target) -> None:
        """Markers of other systems and extras do not count."""
        plant(target, "torch", "2.12.0")
        house = tmp_path / "house"
        house.mkdir()
        _with_needs(house, "torch>=2", 'pywin32; sys_platform == "win32"', 'extra-thing; extra == "all"')

        assert [(one.name, one.version) for one in self.preview(target, house)] == [("fine", "2.0")]

    @pytest.mark.parametrize("need", ["torch>=2.13", "not-there"])
    def test_what_it_needs_is_not(self, tmp_path: Path, target: Target, need: str) -> None:
        """It says what, and what to do; with --no-deps nobody asks."""
        plant(target, "torch", "2.12.0")
        house = tmp_path / "house"
        house.mkdir()
        _with_needs(house, need)

        with pytest.raises(Refused, match=rf"(?s)older than 22\.2.*{need.partition('>')[0]}.*--installer uv"):
            self.preview(target, house)
        shutil.rmtree(Path(str(target.told["purelib"])) / "pip-21.3.1.dist-info")
        assert self.preview(target, house, no_deps=True)


class TestAhead:
    """A preview for a run that is agreed to installs beside at once: pip is started once."""

    @pytest.fixture
    def installer(self, tmp_path: Path, target: Target) -> installers.Installer:
        house = tmp_path / "house"
        house.mkdir()
        _with_needs(house)
        plant(target, "pip", "25.0")
        sources = installers.Sources(no_index=True, find_links=(str(house),))
        return replace(
            found(target), command=(sys.executable, "-m", "pip"), sources=sources, ahead=Ahead(folder=tmp_path)
        )

    def calls(self, installer: installers.Installer) -> int:
        return len(list(installer.folder.glob("pip-*.stdout")))

    def beside(self, installer: installers.Installer, tmp_path: Path, sha256: str) -> Path:
        change = PackageChange(
            name="fine", before="1.0", after="2.0", source="fine-2.0-py3-none-any.whl", sha256=sha256
        )
        install = Install(
            installer="pip", requirements=("fine==2.0",), no_deps=True, no_cache=False, reinstall=False,
            changes=(change,),
        )  # fmt: skip
        installer.install_beside(install, {}, tmp_path / "stage", tmp_path / "fetched", linked=True)
        (module,) = (tmp_path / "stage").rglob("fine.py")
        return module

    def test_what_the_preview_installed_is_the_stage(
        self, tmp_path: Path, target: Target, installer: installers.Installer
    ) -> None:
        """Nothing is in the environment meanwhile, and what was brought is taken once."""
        (release,) = installer.preview(("fine==2.0",), (), no_deps=True, reinstall=False)
        assert not list(target.prefix.rglob("fine*"))

        self.beside(installer, tmp_path, release.sha256)
        assert self.calls(installer) == 1
        shutil.rmtree(tmp_path / "stage")
        self.beside(installer, tmp_path, release.sha256)
        assert self.calls(installer) == 2

    def test_another_file_than_the_plans_is_not_taken(self, tmp_path: Path, installer: installers.Installer) -> None:
        """pip is asked for the plan's own, and refuses what has another hash."""
        installer.preview(("fine==2.0",), (), no_deps=True, reinstall=False)
        with pytest.raises(Refused, match="hash"):
            self.beside(installer, tmp_path, "0" * 64)

    @pytest.mark.parametrize("asked", ["fine", "fine>=2", "fine==2.*"])
    def test_what_is_not_named_exactly_is_only_previewed(self, installer: installers.Installer, asked: str) -> None:
        """Whoever chooses among releases asks several times."""
        assert not is_exact(asked)
        installer.preview((asked,), (), no_deps=True, reinstall=False)
        assert installer.ahead is not None
        assert installer.ahead.tree is None


def _with_needs(house: Path, *needs: str) -> None:
    text = "Metadata-Version: 2.1\nName: fine\nVersion: 2.0\n" + "".join(f"Requires-Dist: {one}\n" for one in needs)
    with zipfile.ZipFile(house / "fine-2.0-py3-none-any.whl", "w") as archive:
        archive.writestr("fine.py", "")
        archive.writestr("fine-2.0.dist-info/METADATA", text)
        archive.writestr("fine-2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("fine-2.0.dist-info/RECORD", "")


class TestConda:
    """What conda installed is recognised by its own records."""

    def records(self, target: Target, *files: str) -> None:
        folder = target.prefix / "conda-meta"
        folder.mkdir()
        (folder / "pytorch-2.12.0-py3.11_cuda12.8_0.json").write_text(
            json.dumps({"name": "pytorch", "version": "2.12.0", "channel": "conda-forge", "files": list(files)})
        )
        (folder / "history").write_text("==> 2026-01-01 <==\n")

    def test_by_the_files_it_brought(self, target: Target) -> None:
        """conda calls torch pytorch: the files tell which distribution it is."""
        self.records(target, "lib/python3.11/site-packages/torch-2.12.0.dist-info/METADATA", "bin/torchrun")

        assert installed.conda_names(target.prefix) == {"torch"}
        assert installed.conda_names(target.prefix / "nowhere") == frozenset()

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 3}', '{"files": [1, null]}', "\xff"])
    def test_records_that_are_none(self, target: Target, text: str) -> None:
        """A damaged one is passed over."""
        self.records(target)
        (target.prefix / "conda-meta/x.json").write_bytes(text.encode("latin-1"))

        assert installed.conda_names(target.prefix) == frozenset()

    def test_its_torch_is_not_replaced_without_a_word(
        self, tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The plan says so."""
        self.records(target, "lib/python3.11/site-packages/torch-2.12.0.dist-info/METADATA")
        plant(target, "torch", "2.12.0")
        release = installers.Release(name="torch", version="2.13.0", source="torch-2.13.0-x.whl", sha256="")
        monkeypatch.setattr(installers.Installer, "preview", lambda *_, **__: (release,))
        wish = InstallRequest(requirements=("torch",), no_deps=False, no_cache=False, reinstall=False)
        plan = resolve.resolve(wish, lambda: found(target))

        assert "conda installed torch 2.12.0; conda will not know that it was replaced" in plan.warnings


class TestWishes:
    """What the options of a recipe become."""

    def resolved(
        self, target: Target, monkeypatch: pytest.MonkeyPatch, wish: InstallRequest
    ) -> tuple[list[str], object]:
        asked: list[str] = []

        def preview(self: object, requirements: tuple[str, ...], *_: object, **__: object) -> tuple[object, ...]:
            asked.extend(requirements)
            return (installers.Release(name="torch", version="2.13.0", source="", sha256=""),)

        monkeypatch.setattr(installers.Installer, "preview", preview)
        return asked, resolve.resolve(wish, lambda: found(target))

    def test_its_companions_follow_torch(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        """torchvision is released for one torch: what is installed of it moves along."""
        plant(target, "torch", "2.12.0")
        plant(target, "torchvision", "0.27.0")
        wish = InstallRequest(requirements=("torch>=2.13",), no_deps=False, no_cache=False, reinstall=False)
        asked, _ = self.resolved(target, monkeypatch, wish)

        assert asked == ["torch>=2.13", "torchvision"]

    @pytest.mark.parametrize(
        "text", ["flash-attn", "flash-attn>=2.8", "flash-attn==2.*", "flash-attn[x]==2.8.3", "-e ."]
    )
    def test_what_is_built_is_named_exactly(self, target: Target, text: str) -> None:
        """Nothing resolves it beforehand."""
        wish = InstallRequest(requirements=(), no_deps=True, no_cache=True, reinstall=True, builds=(text,))
        with pytest.raises(Refused):
            resolve.resolve(wish, lambda: found(target))


@pytest.mark.parametrize(
    ("cpus", "memory", "limit", "jobs"),
    [(64, 512, None, "51"), (4, 512, None, "4"), (64, 16, None, "1"), (64, 4, None, "1"), (64, 512, 32, "3")],
)
def test_as_many_compilers_as_the_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int, memory: int, limit: int | None, jobs: str
) -> None:
    """10 GiB for a job of two threads; a container's limit counts, and what the user says counts more."""
    monkeypatch.delenv("MAX_JOBS", raising=False)
    monkeypatch.delenv("NVCC_THREADS", raising=False)
    facts = FactSet(
        Fact(name=FactName.parse(name), state=Known(value), how="test")
        for name, value in (("node.cpus", cpus), ("node.memory_mib", memory * 1024))
    )
    if limit is not None:
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{limit * 2**30}\n")

    assert build_jobs.environment(facts, root=tmp_path) == {"MAX_JOBS": jobs, "NVCC_THREADS": "2"}
    monkeypatch.setenv("MAX_JOBS", "7")
    assert build_jobs.environment(facts, root=tmp_path)["MAX_JOBS"] == "7"
