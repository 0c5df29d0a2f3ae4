"""Reference data for trials of kernels: meanings of Xid numbers (recipes/xids.toml), and shares of a matrix product
that kernels reached elsewhere (recipes/kernel_shares.toml). Validated each time they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field, StrictBool, StringConstraints, model_validator

from attn_doctor.formats import toml
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.schema.fields import Table


def _range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"no range of versions: {text!r}") from None
    return text


_Url = Annotated[str, StringConstraints(pattern=r"^https://\S+$")]
_Words = Annotated[str, StringConstraints(min_length=3, pattern=r"^\S.*\S$")]
_Share = Annotated[float, Field(gt=0.0, lt=2.0)]


class Xid(Table):
    """Meaning of one Xid number."""

    number: Annotated[int, Field(gt=0)]
    meaning: _Words
    blames: Literal["program", "hardware", "driver", "nothing"]
    keep_out: StrictBool
    action: _Words
    source: _Url


class Share(Table):
    """The share that one kernel reached on one GPU."""

    backend: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
    dtype: Literal["bfloat16", "float16"]
    direction: Literal["forward", "train"]
    compute_capability: Annotated[str, StringConstraints(pattern=r"^\d+\.\d$")]
    torch: Annotated[str, AfterValidator(_range)]
    lowest: _Share
    highest: _Share
    runs: Annotated[int, Field(ge=5)]
    gpu: _Words
    stack: _Words
    measured: date
    source: _Words

    @model_validator(mode="after")
    def _ordered(self) -> Share:
        if self.lowest > self.highest:
            raise ValueError("lowest is above highest")
        return self


class _Xids(Table):
    checked: date
    xid: tuple[Xid, ...]

    @model_validator(mode="after")
    def _once(self) -> _Xids:
        _each_once([(one.number,) for one in self.xid])
        return self


class _Shares(Table):
    checked: date
    share: tuple[Share, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> _Shares:
        _each_once([(s.backend, s.dtype, s.direction, s.compute_capability, s.torch) for s in self.share])
        return self


def _each_once(keys: list[tuple[Any, ...]]) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"twice: {', '.join(map(str, key))}")


def xids(file: Path | None = None) -> dict[int, Mapping[str, Any]]:
    """Xid number -> its meaning. Raises pydantic's ValidationError for an invalid file."""
    table = toml.parse((file or bundled_folder() / "xids.toml").read_text())
    return {one.number: one.model_dump() for one in _Xids.model_validate(table).xid}


def shares(torch_version: str | None, file: Path | None = None) -> tuple[Mapping[str, Any], ...]:
    """The shares for this torch; empty when its version is unknown.

    Raises pydantic's ValidationError for an invalid file.
    """
    table = _Shares.model_validate(toml.parse((file or bundled_folder() / "kernel_shares.toml").read_text()))
    try:
        version = Version(Version(torch_version or "").public)
    except InvalidVersion:
        return ()
    return tuple(one.model_dump() for one in table.share if SpecifierSet(one.torch).contains(version, prereleases=True))
