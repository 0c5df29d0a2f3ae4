"""Reads from an installer that does not find a torch whether the Python that runs or the asked build is the matter."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.torch_builds import builds_of, is_made, nearest_with
from attn_doctor.recipes.data.torch_pythons import pythons

_ASKED_TORCH = when_used(
    r"(?:satisfies the requirement|No matching distributions? found for) torch[=>]=(?P<release>\d\.\d{1,2}(?:\.\d)?)"
    r"(?:(?:\+\w{3,9})? \(from versions: none\)"  # no release at all for this Python
    r"|\+(?P<build>\w{3,9}) \(from versions: [^)\n]{0,3000}?\+(?P=build)\b"  # its index was asked, and has others
    r"|\+cu\w{2,5} \(from versions: [^)\n]{0,200}?\+cpu, \d[\d.]{2,9}\+cu\d"  # a page with all builds was asked
    r"|\+\w{3,9} \(from versions: (?P<oldest>\d\.\d{1,2})\.\d(?=[,)])(?![^\n]*\+)"  # a registry: the oldest first
    # Not where an index with builds of other releases was asked; 2.2.2 is the last for a Mac with Intel.
    r"|(?![.,\da-z+])(?![^\n]*(?:\+(?:cu\d|cpu|rocm)|\b2\.2\.2\))))"
    r"|\btorch==(?P<of_uv>\d\.\d{1,2}\.\d)(?:\+\w{3,9})? has no wheels with a matching Python"
)
#: A release and a build; without a build in the request, that of an index which lists nothing else.
_BUILD = when_used(
    r"(?:satisfies the requirement|No matching distributions? found for|there is no version of) torch=="
    r"(?P<release>\d\.\d{1,2}\.\d)(?:\+(?P<build>cu\d{2,3})\b"
    r"|(?![\d.+])[^\n+]{0,60}\(from versions: [\d.]+\+(?P<listed>cu\d{2,3})(?:, [\d.]+\+(?P=listed))*\))"
)


def torch_not_found(message: str) -> Iterator[tuple[str, str]]:
    """`builds_of_torch` and `torch_with_build` where the release was never published as the build that was asked for;
    else `torch_asked` and `pythons_of_torch` where the Python that runs may have no wheel of it.
    """
    if "torch" not in message:
        return
    found = _BUILD.search(message)
    build = (found["build"] or found["listed"]) if found else ""
    if found and is_made(found["release"], build) is False:
        builds = builds_of(found["release"])
        yield "builds_of_torch", ", ".join(builds)
        yield "build_to_take", next((one for one in reversed(builds) if not one.startswith("cu13")), builds[0])
        yield "build_for_older_gpus", builds[0]
        yield "torch_not_made", found["release"]
        yield "build_not_made", build
        if near := nearest_with(found["release"], build):
            yield "torch_with_build", near
        return
    asked = _ASKED_TORCH.search(message)
    release = (asked["release"] or asked["of_uv"]) if asked else ""
    release += ".0" * (release.count(".") == 1)  # torch>=2.10
    if asked and asked["oldest"] and _number(asked["oldest"]) <= _number(release):
        return  # the registry has older ones for this Python
    if release and (has := pythons(release)):
        yield "torch_asked", release
        yield "pythons_of_torch", " to ".join(has)


def _number(release: str) -> tuple[int, ...]:
    """2.10.0 is (2, 10)."""
    return tuple(map(int, release.split(".")[:2]))
