"""Who else has a say about an installed package: a checkout, a version control system, other packages' requirements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attn_doctor.fix.packages.installed import Installed
from attn_doctor.fix.refusal import InCheckout, Refused
from attn_doctor.model.package_versions import accepts
from attn_doctor.model.plans import PackageChange
from attn_doctor.probe.packages.requirements import RequirementSource, requirements
from attn_doctor.quick_dataclasses import replace


def check_origin(changes: Iterable[PackageChange], here: Iterable[Installed]) -> tuple[str, ...]:
    """What a person should know about where the packages that change came from.

    Raises Refused for one that no release may replace: an editable checkout, an installation from version control, and
    one whose files nobody has listed.
    """
    every = tuple(here)
    twice = {name for name, count in Counter(one.name for one in every).items() if count > 1}
    notes = []
    for change in changes:
        for one in (each for each in every if each.name == change.name):
            notes += _checked(one)
        if change.name in twice:
            copies = ", ".join(one.info.name for one in every if one.name == change.name)
            notes.append(f"{change.name} is installed twice ({copies}); both give way")
    return tuple(dict.fromkeys(notes))


def _checked(one: Installed) -> list[str]:
    said = _direct_url(one)
    url = str(said.get("url", ""))
    if (said.get("dir_info") or {}).get("editable"):
        raise InCheckout(
            f"{one.name} is an editable installation of {_plain(url)}, which a release would silently replace: "
            "change the checkout itself",
            name=one.name,
            checkout=_plain(url),
        )
    if said.get("vcs_info"):
        commit = str((said.get("vcs_info") or {}).get("commit_id", ""))[:12]
        raise InCheckout(
            f"{one.name} was installed from {_plain(url)} at commit {commit}, which a release would silently replace: "
            "install another commit, or the release by hand",
            name=one.name,
        )
    if not (one.info / "RECORD").is_file():
        raise Refused(
            f"{one.info} has no RECORD, so nobody knows which files belong to {one.name} {one.version}: install that "
            "release once more first, with --force-reinstall --no-deps"
        )
    return [f"{one.name} {one.version} came from {_plain(url)}; a release replaces it"] if url else []


def _direct_url(one: Installed) -> Mapping[str, Any]:
    try:
        said = json.loads((one.info / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _plain(url: str) -> str:
    """The address without a user's credentials, and a local one as a path."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"/{path}" if scheme == "file" and not host else f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def broken_requirements(
    changes: Iterable[PackageChange], there: Iterable[Installed], markers: Mapping[str, str]
) -> tuple[str, ...]:
    """Requirements of other packages, the whole environment over, that are met today and would not be met. What the new
    releases need is not known yet.
    """
    versions = {one.name: one.after for one in changes}
    every = tuple(there)
    planned = (replace(one, version=versions[one.name], needs=()) if one.name in versions else one for one in every)
    return newly_unmet(every, planned, markers)


def newly_unmet(before: Iterable[Installed], after: Iterable[Installed], markers: Mapping[str, str]) -> tuple[str, ...]:
    """Requirements of the whole environment that are met before and would not be met after."""
    known = unmet_requirements(before, markers)
    return tuple(words for both, words in unmet_requirements(after, markers).items() if both not in known)


def unmet_requirements(there: Iterable[Installed], markers: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(package, the one it needs) -> text, for each requirement that no installed version meets, as `pip check` tells
    them; those of extras count where a package asks for the extra, and those that cannot be read do not.
    """
    first = {one.name: one for one in reversed(tuple(there))}
    everything = {name: RequirementSource(name, one.version, one.needs) for name, one in first.items()}
    found: dict[tuple[str, str], str] = {}
    for need in requirements(everything, markers):
        needing = f"{need.package} {first[need.package].version} needs {need.on}"
        if need.on not in first:
            found[need.package, need.on] = f"{needing}, which is not installed"
        elif not _accepted(need.specifier, first[need.on].version):
            found[need.package, need.on] = f"{needing}{need.specifier}, and there would be {first[need.on].version}"
    return found


def _accepted(specifier: str, version: str) -> bool:
    try:
        return not specifier or accepts(specifier, version)
    except ValueError:
        return True
