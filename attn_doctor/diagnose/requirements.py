"""Decides which requirements are met by the installed versions, or by those after a plan."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.diagnose.torch_to_come import AskedTorch, asked_torch, made_for
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.install_request import COMPANIONS, is_bound_to_torch
from attn_doctor.model.libraries import published
from attn_doctor.probe.packages.requirements import met, spelled
from attn_doctor.quick_dataclasses import dataclass

#: Requirements with findings of their own, which use more than metadata.
JUDGED_APART = frozenset(
    {("torchvision", "torch"), ("torch", "triton")}
    | {(name, beside) for library in published() for name in library.distributions for beside in library.apart}
)
_LISTED = FactName.parse("listed.requirement")
_IN_STACK = FactName.parse("environment.unmet_in_stack")
_TO_INSTALL = FactName.parse("environment.unmet_to_install")
_WITH_GPU_TORCH = FactName.parse("environment.unmet_with_cpu_torch")


def derived(facts: FactSet) -> Iterator[Fact]:
    """Whether each requirement is met, and a text for each unmet one."""
    states = {subject: _met(facts, subject) for subject in facts.subjects("requirement")}
    for subject, state in states.items():
        yield _fact(
            FactName("requirement", subject, "met"),
            state,
            f"requirement.{subject}.specifier",
            f"package.{subject.partition('.')[2]}.version",
        )
    if _LISTED not in facts:
        return
    doubt = next((state for state in states.values() if isinstance(state, Unknown)), None)
    subjects = [subject for subject, state in states.items() if state == Known(False)]
    apart = _Apart.of(facts)
    unmet = tuple(_by_package(facts, [one for one in subjects if not apart.holds(one)]))
    listing = facts.fact(_LISTED).state
    if isinstance(listing, Unknown):
        doubt = listing
    yield _fact(_IN_STACK, doubt if doubt is not None and not unmet else Known(unmet), "requirement.*.met")
    to_install = doubt if doubt is not None and not unmet else _to_install(facts, subjects, apart)
    yield _fact(_TO_INSTALL, to_install, "requirement.*.met")
    brought = tuple(_by_package(facts, [one for one in subjects if apart.comes_with_a_gpu_build(one)]))
    none = Absent("none that a GPU build of torch would bring")
    yield _fact(_WITH_GPU_TORCH, Known(brought) if brought else none, "requirement.*.met", "torch.cuda", "torch.hip")


def unmet_in_stack(facts: FactSet) -> dict[str, str]:
    """Subject -> text, for each unmet requirement of the attention stack; the facts contain the derived ones."""
    apart = _Apart.of(facts)
    return {
        subject: f"{subject.partition('.')[0]} asks for {_asked(facts, subject)}"
        for subject in facts.subjects("requirement")
        if facts.value(f"requirement.{subject}.met") is False and not apart.holds(subject)
    }


@dataclass(frozen=True, slots=True)
class _Apart:
    """Unmet requirements with a finding of their own, which uses more than metadata and has the remedy."""

    facts: FactSet
    torch: AskedTorch | None
    """The torch that is to come, since packages ask for it."""

    @staticmethod
    def of(facts: FactSet) -> _Apart:
        """The unmet requirements of this environment."""
        asked = asked_torch(facts)
        return _Apart(facts, asked if isinstance(asked, AskedTorch) else None)

    def holds(self, subject: str) -> bool:
        """True when this requirement is among them."""
        package, _, on = subject.partition(".")
        there = _version(self.facts, subject) is not None
        if package == "torch" and on.startswith(("nvidia-", "cuda-")):
            return True  # the loader probe decides whether torch's CUDA libraries exist, wherever they came from
        if package == "torch" and (self.torch is not None or self.facts.value("torch.missing_libraries")):
            return True  # another torch comes, or this one once more, with what it asks for
        if on == "torch" and (self._is_torchs(subject) or made_for(self.facts, package) is not None):
            return True
        follows = self.torch is not None and on in (*COMPANIONS, "triton")
        return self.comes_with_a_gpu_build(subject) or (there and (follows or (package, on) in JUDGED_APART))

    def _is_torchs(self, subject: str) -> bool:
        """Whether the torch that will be installed meets the requirement, as far as that torch is known."""
        if self.torch is None:
            return False
        specifier = self.facts.text(f"requirement.{subject}.specifier") or "any"
        return self.torch.release is None or met(specifier, self.torch.release) is not False

    def comes_with_a_gpu_build(self, subject: str) -> bool:
        """A CPU build of torch brings no triton, and a GPU build does."""
        if not subject.endswith(".triton") or _version(self.facts, subject) is not None:
            return False
        builds = [self.facts.fact(f"torch.{one}").state for one in ("cuda", "hip")]
        return self.facts.text("torch.version") is not None and all(isinstance(one, Absent) for one in builds)


def _by_package(facts: FactSet, subjects: list[str]) -> Iterator[str]:
    """One sentence for each package with unmet requirements; those on torch come first."""
    asked: dict[str, list[str]] = {}
    for subject in sorted(subjects, key=lambda one: (not one.endswith(".torch"), _version(facts, one) is None)):
        asked.setdefault(subject.partition(".")[0], []).append(_asked(facts, subject))
    for package, wanted in asked.items():
        yield f"{package} asks for {', '.join(wanted)}"


def _to_install(facts: FactSet, unmet: list[str], apart: _Apart) -> State:
    """The request to the installer that meets all of them with the present torch, or with the one that will be
    installed, in the order of the requirements.

    The requiring package, in its installed release, brings its requirements along. torch's own missing requirements are
    named themselves: requesting torch would change it.
    """
    subjects = [subject for subject in unmet if not apart.holds(subject)]
    wrong = {subject.partition(".")[2] for subject in subjects if _version(facts, subject) is not None}
    moved = sorted(on for on in wrong if is_bound_to_torch(on))
    # Made for another torch, which its own finding reports: its missing requirements are named instead of its release.
    unfit = {subject.partition(".")[0] for subject in unmet if subject.endswith(".torch") and apart.holds(subject)}
    unfit -= set(apart.torch.by if apart.torch is not None else ())
    # Lies over another: it goes and comes back in another release.
    unfit.update(*(str(facts.value(f"package.{one}.overlaps")).split(" and ") for one in _overlapping(facts)))
    if not subjects:
        return Absent("every requirement of the attention stack is met")
    if apart.torch is not None and not apart.torch.requirement:
        return Absent("packages here ask for different releases of torch")
    if moved:
        return Absent(
            f"{', '.join(moved)} would have to be another release, and what is compiled against torch with it"
        )
    wanted: dict[str, None] = {}
    for subject in subjects:
        package, _, on = subject.partition(".")
        version = None if package in unfit or package == "torch" else _own_release(facts, package)
        if package in wrong:
            continue  # it will be replaced by another release, with its own requirements
        if version is not None:
            wanted[f"{package}=={version}"] = None
        else:
            specifier = str(facts.value(f"requirement.{subject}.specifier"))
            wanted[on if specifier == "any" else f"{on}{specifier}"] = None
    return Known(tuple(wanted))


def _overlapping(facts: FactSet) -> tuple[str, ...]:
    return tuple(one for one in facts.subjects("package") if facts.text(f"package.{one}.overlaps") is not None)


def _own_release(facts: FactSet, package: str) -> str | None:
    """The installed version in an installer's spelling; None when it has another name, or no version is known."""
    if package not in facts.subjects("package") or facts.text(f"package.{package}.distribution") is not None:
        return None
    return facts.text(f"package.{package}.version")


def _fact(name: FactName, state: State, *sources: str) -> Fact:
    how = f"computed from {', '.join(sources)}"
    return Fact(name=name, state=state, how=how, origin=Origin.DERIVED, computed_from=sources)


def _met(facts: FactSet, subject: str) -> State:
    specifier, there = facts.fact(f"requirement.{subject}.specifier").state, _there(facts, subject)
    for state in (specifier, there):
        if isinstance(state, Unknown):
            return state
    if not isinstance(specifier, Known):
        return specifier
    versions = [str(there.value)] if isinstance(there, Known) else []
    # The wheel's metadata may lack torch's build tag: 2.11.0 is 2.11.0+cu130.
    torch = facts.text("torch.version")
    if subject.endswith(".torch") and versions and torch is not None:
        versions.append(torch)
    answers = [met(str(specifier.value), one) for one in versions] or [False]
    if True in answers:
        return Known(True)
    if None in answers:
        return Unknown(f"{versions[0]} is a build before the release, or cannot be compared", asked=False)
    return Known(False)


def _there(facts: FactSet, subject: str) -> State:
    on = subject.partition(".")[2]
    if on in facts.subjects("package"):
        return facts.fact(f"package.{on}.version").state
    return facts.fact(f"requirement.{subject}.installed").state


def _version(facts: FactSet, subject: str) -> str | None:
    there = _there(facts, subject)
    return str(there.value) if isinstance(there, Known) else None


def _asked(facts: FactSet, subject: str) -> str:
    specifier = str(facts.value(f"requirement.{subject}.specifier"))
    return spelled(subject.partition(".")[2], specifier, _version(facts, subject))
