"""The folders of a target into which packages are installed: the interpreter's own, and the user's."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from attn_doctor.fix.packages.installed import installed
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Where the parts of a distribution go."""

    data: str
    purelib: str
    platlib: str
    users: bool = False
    """True for the user's own folders, beside an interpreter that others may use too."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The folders that hold metadata."""
        return tuple(dict.fromkeys((self.purelib, self.platlib)))


def schemes(target: Target) -> tuple[Scheme, ...]:
    """Every scheme of a target, in the order in which it finds packages."""
    told = target.told
    own = Scheme(data=str(told.get("data") or told["prefix"]), purelib=told["purelib"], platlib=told["platlib"])
    base, site = told.get("user_base"), told.get("user_site")
    if not (base and site and told.get("user_site_enabled")) or told["prefix"] != told["base_prefix"]:
        return (own,)
    return (Scheme(data=base, purelib=site, platlib=site, users=True), own)


def sites(target: Target) -> tuple[str, ...]:
    """The folders that hold metadata of what can be exchanged, in the order in which the target finds packages."""
    return tuple(dict.fromkeys(site for one in schemes(target) for site in one.sites))


def scheme_for(names: Iterable[str], target: Target) -> Scheme:
    """The scheme in which these packages are; for new ones the interpreter's own, unless only the user's can be
    written.

    Raises Refused when they lie in both.
    """
    every = schemes(target)
    wanted = tuple(names)
    places = {one: _there(one, wanted) for one in every}
    first = {name: next((one for one in every if name in places[one]), None) for name in wanted}
    found = {one for one in first.values() if one is not None}
    if len(found) > 1:
        mine = ", ".join(name for name, one in first.items() if one is not None and one.users)
        raise Refused(f"{mine} lies in the user's own folder and the rest does not: take them one by one")
    if found:
        return found.pop()
    return next((one for one in reversed(every) if os.access(one.purelib, os.W_OK)), every[-1])


def _there(scheme: Scheme, names: Collection[str]) -> frozenset[str]:
    return frozenset(installed(scheme.sites)) & frozenset(names)
