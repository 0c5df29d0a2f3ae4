"""Finds the distribution of a module that an import did not find, from unmet requirements in metadata."""

from __future__ import annotations

import re

from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.package_versions import canonical_name


def requirement_for(facts: FactSet, missing: str) -> str | None:
    """The unmet requirement that provides this module, with its specifier; None when there is none, or several.

    A distribution's name usually shows its module: `typing-extensions` is typing_extensions, and `nvidia-cutlass-dsl`
    may be the only missing requirement with a part `cutlass`.
    """
    top = canonical_name(missing.partition(".")[0])
    absent: dict[str, str] = {}
    for subject in facts.subjects("requirement"):
        asked = facts.text(f"requirement.{subject}.specifier")
        on = subject.partition(".")[2]
        if asked is None or not isinstance(facts.fact(f"requirement.{subject}.installed").state, Absent):
            continue
        if on not in absent or absent[on] == "any":
            absent[on] = asked
    named = [on for on in absent if on == top]
    parts = [on for on in absent if top in re.split(r"[-.]", on)]
    for found in (named, parts):
        if len(found) == 1:
            specifier = absent[found[0]]
            return found[0] + ("" if specifier == "any" else specifier)
    return None
