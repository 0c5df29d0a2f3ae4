"""Holds what a remedy installs against the partners that the log names: the Python, torch, other packages, the models.

A request is held to the releases that fit, where the newest of them does not. One that leaves no release that fits goes
behind the other remedies, led by what breaks nothing. What the log does not tell, and packages that are not in
recipes/partners.toml, change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.version import Version

from attn_doctor.diagnose.binding import Binding
from attn_doctor.diagnose.finding import offered
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.install_request import name_of
from attn_doctor.model.package_versions import accepts
from attn_doctor.model.remedies import Advise, InstallPackages
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.data.partners import (
    Partner,
    models_since,
    needs_of_program,
    partner_ways,
    partners,
    torches_of_a_time,
)
from attn_doctor.recipes.data.programs import ways
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

_REQUIREMENT = when_used(
    r"(?P<name>[A-Za-z][\w.-]*)(?P<extras>\[[\w,-]*\])?(?P<specifier>(?:[<>=!~]=?=?[\w.*,<>=!~]+)?)"
)
_IN_COMMAND = when_used(
    r"(?<=\s)(?P<quote>[\"']?)(?P<text>[A-Za-z][\w.-]*(?:[<>=!~]=?[\w.*,<>=!~]+)?)(?P=quote)(?=\s|$)"
)
_OF_A_MODEL = when_used(r"transformers[/\\.]models[/\\.](?P<name>[a-z]\w{1,40})[/\\.]")
#: A title that begins so is about the installing; another one names what else is to be done first.
_INSTALLS = when_used(
    r"(?:On \w+: )?(?:[Ii]nstall|[Uu]pgrade|[Uu]pdate|[Gg]o back|[Tt]ake (?:the|an?) (?:older|newer)|[Pp]ut|[Bb]ring)\b"
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stands against a request: `Python 3.13` with `numpy>=2.1`."""

    package: str
    asked: str
    by: str
    needs: str
    older: bool
    """The request is for a release older than that."""


@dataclass(frozen=True, slots=True)
class _Need:
    by: str
    specifier: str


def beside_its_partners(recipe: Recipe, facts: FactSet, binding: Binding, text: str) -> tuple[Recipe, FactSet]:
    """The recipe for a message of this text, with what its new remedy says as facts."""
    before: list[RecipeRemedy] = []
    behind: list[RecipeRemedy] = []
    led = False
    models = frozenset(found["name"] for found in _OF_A_MODEL.finditer(text))
    for one in recipe.remedies:
        held, obstacle = _held(one, facts, models)
        if obstacle is not None and not offered((one,), facts, binding):
            before.append(one)
        elif obstacle is None:
            before.append(held)
        elif not _INSTALLS.match(one.title):
            before.append(_without_its_installs(one, obstacle.package))
        else:
            if not led:  # what stands first among them
                led, facts = True, facts.with_facts(_told(obstacle))
                before.append(_way(obstacle, facts))
            behind.append(replace(one, fallback=True))
    return replace(recipe, remedies=(*before, *behind)), facts


def _way(obstacle: Obstacle, facts: FactSet) -> RecipeRemedy:
    if not obstacle.older:
        return partner_ways()["environment-of-its-own"]
    if facts.text("log.program") and facts.text("log.plugin"):
        return ways()["update-the-plugin"]
    return partner_ways()["partner-stays"]


def _told(obstacle: Obstacle) -> Iterator[Fact]:
    for name, value in (
        ("log.held_package", obstacle.package),
        ("log.held_asked", obstacle.asked),
        ("log.held_by", obstacle.by),
        ("log.held_needs", obstacle.needs),
    ):
        yield Fact(name=FactName.parse(name), state=Known(value), how="recipes/partners.toml", origin=Origin.DERIVED)


def _held(written: RecipeRemedy, facts: FactSet, models: frozenset[str]) -> tuple[RecipeRemedy, Obstacle | None]:
    """The remedy with requests for the releases that fit, and what forbids it."""
    asked = dict(_requests(written, facts))
    together = {name_of(text) for text in asked}
    for text, no_deps in asked.items():
        found = _REQUIREMENT.fullmatch(text)
        partner = partners().get(name_of(text)) if found else None
        if found is None or partner is None:
            continue
        fitting = _Fitting(partner, found["specifier"], facts, models, together, no_deps)
        if obstacle := fitting.obstacle():
            return written, obstacle
        if (narrowed := fitting.narrowed()) is not None:
            written = _with_request(written, facts, text, f"{found['name']}{found['extras'] or ''}{narrowed}")
    return written, None


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Which releases that a specifier admits go with what the log names."""

    partner: Partner
    specifier: str
    facts: FactSet
    models: frozenset[str]
    together: set[str]
    no_deps: bool

    def obstacle(self) -> Obstacle | None:
        admitted = self._admitted()
        if not admitted:
            return None
        for need in self._needs_of_others():
            if not any(_accepts(need.specifier, one) for one in admitted):
                return self._by(need.by, f"{self.partner.name}{need.specifier}", need.specifier, admitted)
        for on, label, there in self._there():
            fits = [one for one in self.partner.releases if self._goes_with(one, on, there)]
            if fits and not any(self._goes_with(one, on, there) for one in admitted):
                older = Version(admitted[-1]) < Version(fits[0])
                needs = f"{self.partner.name} {fits[0] if older else fits[-1]} or {'later' if older else 'older'}"
                if on in ("python", "torch") or self.no_deps:
                    return Obstacle(self.partner.name, f"{self.partner.name}{self.specifier}", label, needs, older)
        return None

    def narrowed(self) -> str | None:
        """The specifier below the first release that does not fit; None where the newest fits, or is named."""
        admitted = self._admitted()
        others, there = tuple(self._needs_of_others()), tuple(self._there())
        fits = [
            one
            for one in admitted
            if all(_accepts(need.specifier, one) for need in others)
            and all(self._goes_with(one, on, version) for on, _, version in there)
        ]
        if not fits or fits[-1] == admitted[-1] or "==" in self.specifier:
            return None
        cap = ".".join(admitted[admitted.index(fits[-1]) + 1].split(".")[:2])
        kept = [one for one in self.specifier.split(",") if one and not one.startswith("<")]
        return ",".join([*kept, f"<{cap}"])

    def _admitted(self) -> list[str]:
        exact = re.fullmatch(r"={2,3}([\d.]+)", self.specifier)
        every = [exact[1]] if exact else self.partner.releases
        return [one for one in every if _accepts(self.specifier, one)]

    def _goes_with(self, release: str, on: str, there: str) -> bool:
        return _accepts(self.partner.needs(release).get(on, ""), there)

    def _there(self) -> Iterator[tuple[str, str, str]]:
        """What the releases ask for and the log names: name, words, version."""
        if python := self.facts.text("python.version"):
            yield "python", f"Python {'.'.join(python.split('.')[:2])}", python
        if torch := self.facts.text("torch.version") or self.facts.text("package.torch.version"):
            release = torch.partition("+")[0]
            yield "torch", f"torch {release}", release
        else:
            gpu = self.facts.text("gpu.0.compute_capability")
            for fact, (torches, gpus_below) in torches_of_a_time().items():
                if self.facts.text(fact) is not None and not (gpu and Version(gpu) >= Version(gpus_below)):
                    yield from (("torch", f"a torch of that time ({one})", one) for one in torches)
        if self.no_deps:  # else the installer moves these along
            for name in sorted({on for _, row in self.partner.rows for on in row} - {"python", "torch"}):
                if name not in self.together and (version := self.facts.text(f"package.{name}.version")):
                    yield name, f"{name} {version}", version

    def _needs_of_others(self) -> Iterator[_Need]:
        name = self.partner.name
        if name == "transformers":
            for model in sorted(self.models):
                if since := models_since().get(model):
                    yield _Need(f"the model {model}", f">={since}")
        for other, row in partners().items():
            version = self.facts.text(f"package.{other}.version")
            if version and other not in self.together and (asked := row.needs(version).get(name)):
                yield _Need(f"{other} {version}", asked)
        if self.partner.cap and any(_accepts(self.partner.cap, one) for one in self._admitted()):
            yield _Need("what is beside it", self.partner.cap)
        torch = self.facts.text("torch.version") or self.facts.text("package.torch.version")
        if (program := self.facts.text("log.program")) and (asked := needs_of_program(program, torch).get(name)):
            yield _Need(program, asked)

    def _by(self, by: str, needs: str, specifier: str, admitted: list[str]) -> Obstacle:
        fits = [one for one in self.partner.releases if _accepts(specifier, one)]
        older = bool(fits) and Version(admitted[-1]) < Version(fits[0])
        return Obstacle(self.partner.name, f"{self.partner.name}{self.specifier}", by, needs, older)


def _accepts(specifier: str, version: str) -> bool:
    try:
        return not specifier or accepts(specifier, version)
    except ValueError:
        return True


def _requests(written: RecipeRemedy, facts: FactSet) -> Iterator[tuple[str, bool]]:
    """The requirements that it installs, as far as their facts are known, and whether what they ask for is left."""
    for one in written.actions:
        if isinstance(one, InstallPackages | Advise):
            for text in one.requirements:
                if (filled := _filled(text, facts)) is not None:
                    yield filled, one.no_deps
        for command in getattr(one, "commands", ()):
            yield from _in_command(command, facts)


def _in_command(command: str, facts: FactSet) -> Iterator[tuple[str, bool]]:
    before, _, words = command.partition(" install ")
    if words and "pip" in before and "{" not in words and "download.pytorch.org" not in words:
        for found in _IN_COMMAND.finditer(" " + words):
            yield found["text"], "--no-deps" in words


def _filled(text: str, facts: FactSet) -> str | None:
    values: Mapping[str, str | None] = {name: facts.text(name) for name in TEMPLATE.findall(text)}
    if None in values.values():
        return None
    return TEMPLATE.sub(lambda found: str(values[found[1]]), text)


def _with_request(written: RecipeRemedy, facts: FactSet, old: str, new: str) -> RecipeRemedy:
    def changed(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(new if _filled(one, facts) == old else one for one in texts)

    def typed(command: str) -> str:
        before, between, words = command.partition(" install ")
        if not words or "pip" not in before:
            return command
        spelled = _IN_COMMAND.sub(lambda found: f'"{new}"' if found["text"] == old else found[0], " " + words)
        return before + between + spelled[1:]

    actions = []
    for one in written.actions:
        if isinstance(one, InstallPackages):
            one = replace(one, requirements=changed(one.requirements))
        elif isinstance(one, Advise):
            one = replace(one, requirements=changed(one.requirements), commands=tuple(map(typed, one.commands)))
        actions.append(one)
    return replace(written, actions=tuple(actions))


def _without_its_installs(written: RecipeRemedy, package: str) -> RecipeRemedy:
    """What else it says, which comes first in its title."""
    actions = []
    for one in written.actions:
        if isinstance(one, InstallPackages) and package in map(name_of, one.requirements):
            continue
        if isinstance(one, Advise):
            left = () if package in map(name_of, one.requirements) else one.requirements
            typed = (command for command in one.commands if not re.search(rf"[\s'\"]{package}[<=]", command))
            one = replace(one, requirements=left, commands=tuple(typed))
        actions.append(one)
    return replace(written, actions=tuple(actions))
