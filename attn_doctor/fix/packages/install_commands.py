"""Install commands for a person: they hold the same packages as `fix` would."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePath

from packaging.version import InvalidVersion, Version

from attn_doctor.fix.packages.typable_commands import speaks_uv
from attn_doctor.model.facts import Absent, FactName, FactSet, Known
from attn_doctor.model.install_request import BOUND_TO_TORCH, COMPANIONS, InstallRequest, name_of
from attn_doctor.model.package_versions import accepts
from attn_doctor.recipes.data.torch_releases import index_of

#: They do not depend on torch: where nobody knows of one, there may be none.
_APART = frozenset({"jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "tensorflow", "keras"})
#: Stands for the pin of a torch whose version nobody knows: the shell asks it when the command runs.
_AS_IT_IS = "torch==AS-IT-IS"
_ASKED = '"torch==$({python} -c \'import torch; print(torch.__version__.split("+")[0])\')"'


def install_command(request: InstallRequest, facts: FactSet) -> str:
    """One command for this target's pip, or for uv when the target has no pip.

    When the request does not name torch, the command keeps it unchanged: with --no-deps, else by a pin of the installed
    version. Empty where the index that it takes is not known, and where a named package excludes the torch to keep.
    """
    if not request.no_deps and not request.moves_torch and _excludes_torch(request, facts):
        return ""
    python = facts.text("python.executable") or "python"
    with_pip = not speaks_uv(facts)
    uv = facts.text("python.uv") or "uv"
    words = [python, "-m", "pip", "install"] if with_pip else [uv, "pip", "install", "--python", python]
    requirements = [*request.with_companions(_beside_torch(facts)), *(() if request.no_deps else _held(request, facts))]
    if request.no_deps:
        words.append("--no-deps")
    if request.no_cache:
        words.append("--no-cache-dir" if with_pip else "--no-cache")
    if request.reinstall and with_pip:
        words.append("--force-reinstall")
    elif request.reinstall:
        words += [word for name in map(name_of, request.requirements) for word in ("--reinstall-package", name)]
    if request.builds:
        words.append("--no-build-isolation")
    index = []
    if request.torch_backend and not with_pip:
        words += ["--torch-backend", request.torch_backend]
    elif request.torch_backend:
        if not request.torch_backend.replace(".", "").isalnum() or request.torch_backend == "auto":
            return ""
        index = ["--index-url", index_of(request.torch_backend)]
    elif build := _build_of_missing_companions(request, facts):
        # Beside the configured one, which holds the rest; 0.28.0+cpu counts as higher than 0.28.0 there.
        if with_pip:
            index = ["--extra-index-url", index_of(build)]
        else:
            words += ["--torch-backend", build]
    asked = _ASKED.format(python=shlex.quote(python))
    words += [*requirements, *request.builds, *index]
    return " ".join(asked if word == _AS_IT_IS else shlex.quote(word) for word in words)


def _excludes_torch(request: InstallRequest, facts: FactSet) -> bool:
    """True when the installed release of a named package asks for another torch: no installer finds a set for both."""
    held = torch_held(facts)
    for text in request.requirements:
        name = name_of(text)
        asked = facts.text(FactName("requirement", f"{name}.torch", "specifier"))
        if held and asked and text == f"{name}=={facts.text(FactName('package', name, 'version'))}":
            try:
                if not accepts(asked, held):
                    return True
            except ValueError:
                continue
    return False


def _installed(facts: FactSet) -> dict[str, str]:
    """Installed versions of the packages bound to torch, as their metadata spells them."""
    found = ((name, facts.text(f"package.{name}.version")) for name in BOUND_TO_TORCH)
    return {name: version for name, version in found if version}


def _beside_torch(facts: FactSet) -> dict[str, str]:
    """What is installed and changes with torch. A log does not list packages: most environments have a companion, and
    a torch that moves alone breaks it."""
    there = _installed(facts)
    return {**dict.fromkeys(COMPANIONS, ""), **there} if _of_a_log(facts) else there


def _of_a_log(facts: FactSet) -> bool:
    """True where no environment was examined: a check knows its interpreter by the whole path."""
    python = facts.text("python.executable") or "python"
    return facts.text("log.program") is not None or not PurePath(python).parent.name


def _build_of_missing_companions(request: InstallRequest, facts: FactSet) -> str:
    """The build of torch's own index (cpu, cu126) that torchvision or torchaudio must come from; empty if any will do.

    A package asks for one that is not installed, so an installer brings it; the default index has one build of each
    release, which does not load beside a torch from another index.
    """
    if request.no_deps or request.moves_torch:
        return ""
    asked = {subject.rpartition(".")[2] for subject in facts.subjects("requirement")}
    if not any(one in asked and one not in _installed(facts) for one in COMPANIONS):
        return ""
    build = facts.text("torch.gpu_backend") if facts.text("torch.release_to_come") else None
    build = build or (_installed(facts).get("torch") or "").partition("+")[2]
    return build if build == "cpu" or build.startswith("cu") else ""


def _held(request: InstallRequest, facts: FactSet) -> tuple[str, ...]:
    """Only the pin of torch: torch's own requirements hold triton and the CUDA packages, and pip would refuse because
    of a companion that already does not fit this torch."""
    if request.moves_torch:
        return ()
    release = torch_held(facts)
    if release == _AS_IT_IS.removeprefix("torch==") and request.names <= _APART:
        return ()
    return request.held({"torch": release}) if release is not None else ()


def torch_held(facts: FactSet) -> str | None:
    """The release to which commands pin torch: the one that another fix in the report installs, else the installed one.

    Without its build tag: no registry has 2.13.0+cpu, and `==2.13.0` accepts whichever build is installed. None if
    there is no torch.
    """
    to_come = facts.text("torch.release_to_come")
    installed = _installed(facts).get("torch")
    if to_come is not None or installed is not None:
        return to_come or _release(str(installed))
    told = facts.fact(FactName.parse("torch.version")).state
    if isinstance(told, Absent):
        return None
    return _release(str(told.value)) if isinstance(told, Known) else _AS_IT_IS.removeprefix("torch==")


def _release(version: str) -> str:
    """The version without a build tag that the metadata lacks: torch may report 2.13.0+cu130 when its metadata has
    2.13.0.
    """
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def other_names(requirements: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """The distributions that provide the required libraries under other names."""
    own = (facts.text(FactName("package", name_of(text), "distribution")) for text in requirements)
    return tuple(name for name in own if name is not None)
