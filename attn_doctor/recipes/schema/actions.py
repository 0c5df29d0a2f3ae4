"""Validates the actions of a recipe (model/remedies.py): no place to install from, nothing that could become code.

Imported by recipe_file.py alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from attn_doctor.model.install_request import name_of
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.schema.allowed_edits import keyword_fault, setting_fault, variable_fault
from attn_doctor.recipes.schema.fields import Prose, Releases, Table, filled_text


def _requirement(text: str) -> str:
    """`name` with a specifier; no URL, path, marker or option, since a recipe must not choose the source."""
    named = re.sub(rf"^{TEMPLATE.pattern}", "package", filled_text(text))  # may be a placeholder
    plain_text = re.sub(rf"(?<=[=<>~]){TEMPLATE.pattern}", "1", named)
    plain_text = TEMPLATE.sub("==1", plain_text)
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


def _backend(text: str) -> str:
    """ "auto", or a placeholder for a build of torch: a recipe names no build itself."""
    if text not in ("", "auto") and not re.fullmatch(TEMPLATE, text):
        raise ValueError('"auto", or a fact that names the build, such as {torch.gpu_backend}')
    return filled_text(text)


RequirementText = Annotated[StrictStr, AfterValidator(_requirement)]


class _Packages(Table):
    """A request to an installer: carried out by install-packages, shown to people by advise."""

    requirements: tuple[RequirementText, ...] = ()
    no_deps: StrictBool = False
    no_cache: StrictBool = False
    force_reinstall: StrictBool = False
    no_build_isolation: StrictBool = False
    torch_backend: Annotated[StrictStr, AfterValidator(_backend)] = ""
    index_hint: StrictStr = ""

    @model_validator(mode="after")
    def _sound(self) -> _Packages:
        moves_torch = any(name_of(one) == "torch" for one in self.requirements)
        if self.force_reinstall and not self.no_deps and not moves_torch:
            raise ValueError("force_reinstall without no_deps: pip would install torch anew as well")
        if self.no_build_isolation and not self.no_deps:
            raise ValueError("no_build_isolation without no_deps: a build must not bring another torch")
        if self.no_build_isolation and not all("==" in one for one in self.requirements):
            raise ValueError("no_build_isolation asks for exact releases (name==version): nothing else resolves them")
        return self


class _InstallPackages(_Packages):
    """`requirements`: names with specifiers, no URL, marker or option; `no_deps`, `no_cache`, `force_reinstall`;
    `no_build_isolation`: built from source against the installed torch (exact releases, with `no_deps`);
    `torch_backend`: a fact that names the build of torch's own index, such as `{torch.gpu_backend}` (or `"auto"`:
    uv asks the machine at hand), where nobody has named an index; `index_hint` for people. What is printed is what
    `fix` asks for: a request that does not name torch holds it at its installed version
    """

    kind: Literal["install-packages"]
    requirements: Annotated[tuple[RequirementText, ...], Field(min_length=1)]


class _InstallWheel(Table):
    """`package` (flash-attn, causal-conv1d, mamba-ssm), `version`: a specifier. The published wheel that fits is
    computed from its `wheels.toml`
    """

    kind: Literal["install-wheel"]
    package: Literal["flash-attn", "causal-conv1d", "mamba-ssm"]
    version: Annotated[StrictStr, AfterValidator(_specifier)] = ""


class _SetConfig(Table):
    """`key`, `value`"""

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
    """`edit`, `where` (from a trace); for `set-keyword` also `packages`, `file`, `function`, `call`, `keyword`,
    `value`
    """

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
    """`name`: none that decides what programs load or run (`PATH`, `LD_…`, `PYTHON…`, `PIP_…`); `value`: letters,
    digits and `_.,:/=+-`
    """

    kind: Literal["set-environment"]
    name: StrictStr
    value: StrictStr

    @model_validator(mode="after")
    def _plain(self) -> _SetEnvironment:
        fault = variable_fault(self.name, self.value)
        if fault:
            raise ValueError(fault)
        return self


class _Advise(_Packages):
    """`text`, `commands`, and the keys of `install-packages`, which make one more command: for people"""

    kind: Literal["advise"]
    text: Prose
    commands: tuple[Prose, ...] = ()


Action = Annotated[
    _InstallPackages | _InstallWheel | _SetConfig | _EditSource | _SetEnvironment | _Advise, Field(discriminator="kind")
]
#: Kind of action -> its keys in a recipe; docs/recipes.md contains their docstrings.
TABLES: Mapping[str, type[Table]] = {
    str(get_args(table.model_fields["kind"].annotation)[0]): table for table in get_args(get_args(Action)[0])
}


def documented() -> str:
    """The tables as rows of Markdown."""
    rows = (f"| `{kind}` | {' '.join((table.__doc__ or '').split())} |" for kind, table in TABLES.items())
    return "\n".join(("| kind | keys |", "| --- | --- |", *rows))
