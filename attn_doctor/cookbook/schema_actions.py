"""What a remedy may do, each action with its settings; nothing that names a place to install from, or becomes code.

Imported by schema.py alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from attn_doctor.cookbook.build import TEMPLATE
from attn_doctor.cookbook.edits import keyword_fault, setting_fault, variable_fault
from attn_doctor.cookbook.schema_fields import Prose, Releases, Table, filled_text


def _requirement(text: str) -> str:
    """`name` with a specifier; no URL, path, marker or option, since a recipe must not say where from."""
    plain_text = TEMPLATE.sub("==1", text) if TEMPLATE.search(filled_text(text)) else text
    try:
        found = Requirement(plain_text)
    except InvalidRequirement:
        raise ValueError(f"not a requirement: {text!r}") from None
    if found.url is not None or found.marker is not None:
        raise ValueError(f"a name and a specifier, without a URL and without a marker: {text!r}")
    return text


def _specifier(text: str) -> str:
    try:
        SpecifierSet(TEMPLATE.sub("1", text))
    except InvalidSpecifier:
        raise ValueError(f"not a version specifier: {text!r}") from None
    return filled_text(text)


RequirementText = Annotated[StrictStr, AfterValidator(_requirement)]


class _InstallPackages(Table):
    kind: Literal["install-packages"]
    requirements: Annotated[tuple[RequirementText, ...], Field(min_length=1)]
    no_deps: StrictBool = False
    no_cache: StrictBool = False
    force_reinstall: StrictBool = False
    no_build_isolation: StrictBool = False
    torch_backend: Literal["", "auto"] = ""
    index_hint: StrictStr = ""

    @model_validator(mode="after")
    def _buildable(self) -> _InstallPackages:
        if self.no_build_isolation and not self.no_deps:
            raise ValueError("no_build_isolation without no_deps: a build must not bring another torch")
        if self.no_build_isolation and not all("==" in one for one in self.requirements):
            raise ValueError("no_build_isolation asks for exact releases (name==version): nothing else resolves them")
        return self


class _InstallWheel(Table):
    kind: Literal["install-wheel"]
    package: Literal["flash-attn"]
    version: Annotated[StrictStr, AfterValidator(_specifier)] = ""


class _SetConfig(Table):
    kind: Literal["set-config"]
    key: StrictStr
    value: StrictStr

    @model_validator(mode="after")
    def _plain(self) -> _SetConfig:
        fault = setting_fault(self.key, self.value)
        if fault:
            raise ValueError(fault)
        return self


class _EditSource(Table):
    kind: Literal["edit-source"]
    edit: Literal["cast-before-kernel", "cast-operand", "cast-mask", "set-keyword"]
    where: StrictStr = ""
    packages: tuple[Releases, ...] = ()
    file: StrictStr = ""
    function: StrictStr = ""
    call: StrictStr = ""
    keyword: StrictStr = ""
    value: StrictStr = ""

    @model_validator(mode="after")
    def _placed(self) -> _EditSource:
        place = {key: getattr(self, key) for key in ("file", "function", "call", "keyword", "value")}
        if self.edit != "set-keyword":
            if any(place.values()) or self.packages:
                raise ValueError(f"{self.edit} takes its place from a trace: no file, function, call, keyword, value")
            return self
        if not self.packages:
            raise ValueError("packages: the releases whose source is known")
        fault = keyword_fault(**place)
        if fault:
            raise ValueError(fault)
        return self


class _SetEnvironment(Table):
    kind: Literal["set-environment"]
    name: StrictStr
    value: StrictStr

    @model_validator(mode="after")
    def _plain(self) -> _SetEnvironment:
        fault = variable_fault(self.name, self.value)
        if fault:
            raise ValueError(fault)
        return self


class _Advise(Table):
    kind: Literal["advise"]
    text: Prose
    commands: tuple[Prose, ...] = ()


ACTIONS = ("install-packages", "install-wheel", "set-config", "edit-source", "set-environment", "advise")
Action = Annotated[
    _InstallPackages | _InstallWheel | _SetConfig | _EditSource | _SetEnvironment | _Advise, Field(discriminator="kind")
]
