"""The package indexes that a person configured: for uv by its own variables, else those of pip."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

_OF_UV = ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Where packages come from, as configured."""

    index: str = ""
    """Empty: the installer's default."""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    certificate: str = ""

    def for_uv(self) -> list[str]:
        """uv's options of the same meaning. pip takes the best of all indexes, so uv is told to as well."""
        words = ["--default-index", self.index] if self.index else []
        for one in self.extra:
            words += ["--index", one]
        if self.extra:
            words += ["--index-strategy", "unsafe-best-match"]
        for one in self.find_links:
            words += ["--find-links", one]
        return [*words, *(["--no-index"] if self.no_index else [])]


def settings_of_pip(environment: Mapping[str, str] | None = None) -> IndexSettings:
    """pip's settings from its files and variables, later ones first; empty when uv has settings of its own.

    Files: https://pip.pypa.io/en/stable/topics/configuration/. What cannot be read is left out, as pip's own message
    about it belongs to pip.
    """
    here = os.environ if environment is None else environment
    if any(here.get(one) for one in _OF_UV):
        return IndexSettings()
    told: dict[str, str] = {}
    for file in _files(here):
        told |= _of_file(file)
    told |= {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in here.items()
        if name.startswith("PIP_") and value
    }
    return IndexSettings(
        index=told.get("index-url", ""),
        extra=_each(told.get("extra-index-url", "")),
        find_links=_each(told.get("find-links", "")),
        no_index=told.get("no-index", "").lower() in ("1", "true", "yes", "on"),
        certificate=told.get("cert", ""),
    )


def _files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Lowest precedence first."""
    named = environment.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    home = Path(environment.get("HOME") or "/")
    own = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    found = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", own, Path(sys.prefix) / "pip.conf"]
    return tuple(found) + ((Path(named),) if named else ())


def _of_file(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text())
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}
    found: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            found |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    return found


def _each(text: str) -> tuple[str, ...]:
    return tuple(text.split())
