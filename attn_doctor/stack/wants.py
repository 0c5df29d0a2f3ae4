"""Reads the wants of a person: requirements, by the names of distributions or of attention libraries."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from attn_doctor.errors import BadInput
from attn_doctor.model.libraries import published
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass

_HINT = "Write a requirement as for pip: torch==2.13.*, vllm, 'transformers>=5'."


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """One wanted package."""

    name: str
    """Canonical."""
    specifier: SpecifierSet = SpecifierSet()
    extras: tuple[str, ...] = ()
    typed: str = ""
    """As the person wrote it; empty for torch when only the others were asked for."""

    @property
    def words(self) -> str:
        """The want as a requirement."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras}{self.specifier}"

    @property
    def pin(self) -> str:
        """The one version that it accepts; empty when it accepts several."""
        pins = [one.version for one in self.specifier if one.operator in ("==", "===") and "*" not in one.version]
        return pins[0] if pins else ""

    @property
    def corrected(self) -> SpecifierSet:
        """`==0.0.32.*` for `==0.0.32`: its corrected releases, 0.0.32.post2, too; no specifier where it is no pin."""
        try:
            return SpecifierSet(f"=={Version(self.pin).base_version}.*" if self.pin else "")
        except InvalidVersion:
            return SpecifierSet()


def read_wants(texts: Iterable[str]) -> tuple[Want, ...]:
    """The wants in order, torch first; torch is always among them.

    Raises BadInput for a text that is no requirement, for an address, and for a package that is named twice.
    """
    found: dict[str, Want] = {}
    for text in texts:
        want = _want(text)
        if want.name in found:
            raise BadInput(f"{want.name} is wanted twice", about=text, hint="Write one requirement for each package.")
        found[want.name] = want
    torch = found.pop("torch", None) or Want(name="torch")
    return (torch, *found.values())


def _want(text: str) -> Want:
    try:
        requirement = Requirement(text.strip())
    except InvalidRequirement as error:
        raise BadInput(f"that is no requirement: {str(error).splitlines()[0]}", about=text, hint=_HINT) from None
    if requirement.url:
        hint = "Name the package, and the folder or index with --find-links or --index."
        raise BadInput("an address is no want: what is there is not chosen any more", about=text, hint=hint)
    name = canonical_name(requirement.name)
    return Want(
        name=_ALIASES.get(name, name),
        specifier=requirement.specifier,
        extras=tuple(sorted(requirement.extras)),
        typed=text.strip(),
    )


#: Names by which the shelf calls libraries whose distributions are called otherwise: fla, sage.
_ALIASES = {canonical_name(one.name): canonical_name(one.distributions[0]) for one in published()}
