"""Who else has a say about an installed package: a checkout, a version control system, other packages' requirements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from attn_doctor.fix.packages.installed import Installed
from attn_doctor.fix.refusal import InCheckout, Refused
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import PackageChange


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
    """Requirements of other packages, the whole environment over, that are met today and would not be met."""
    after = {one.name: one.after for one in changes}
    found = []
    every = tuple(there)
    versions = {one.name: one.version for one in reversed(every)}
    for one in every:
        for text in one.needs if one.name not in after else ():
            try:
                need = Requirement(text)
                if need.marker is not None and not need.marker.evaluate({**markers, "extra": ""}):
                    continue
            except (InvalidRequirement, KeyError, ValueError):
                continue
            name = canonical_name(need.name)
            if name not in after or need.specifier.contains(after[name], prereleases=True):
                continue
            if name in versions and need.specifier.contains(versions[name], prereleases=True):
                found.append(f"{one.name} {one.version} needs {need.name}{need.specifier}")
    return tuple(dict.fromkeys(found))
