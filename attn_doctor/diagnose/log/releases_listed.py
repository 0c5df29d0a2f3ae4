"""Tells where the release that pip was asked for stands beside those that it lists for this Python and platform.

pip lists what the index that it asks has for the interpreter. A release before all of them was mostly published for
older Pythons alone; one behind them for newer ones, for another platform, or not at all. Of an index of torch's builds,
whose releases have such a part (0.22.0+cu128), neither is said: it begins where that CUDA did.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from attn_doctor.quick_patterns import when_used

_ASKED = when_used(
    r"satisfies the requirement [A-Za-z][\w.-]{1,60}(?:\[[^\]\n]{1,60}\])?"
    r"(?P<sign>==|<=|>=|~=)(?P<asked>\d[\w.+]{0,30})"
    r"[^\n]{0,200}?\(from versions: (?P<listed>[^)\n]{3,6000})(?P<whole>\)?)"
)


def beside_those_listed(message: str) -> Iterator[tuple[str, str]]:
    """`release_asked`, `release_place` (older or newer than all that are listed) and `release_near`, the nearest of
    them; between them `release_instead`, of the same minor release. Nothing where the release is among them, or no
    number is pinned. Pre-releases are passed over, as by pip.
    """
    found = _ASKED.search(message)
    if found is None:
        return
    listed = sorted(one for one in _versions(found["listed"].split(",")) if not one.is_prerelease)
    asked = next(_versions([found["asked"]]), None)
    if asked is None or not listed or any(one.local for one in listed):
        return
    if found["sign"] == "==" and asked not in listed and (instead := _instead(asked, listed)):
        yield "release_asked", str(asked)
        yield "release_instead", str(instead)
        return
    if asked < listed[0] and found["sign"] != ">=":
        place, near = "older", listed[0]
    elif asked > listed[-1] and found["sign"] != "<=" and found["whole"]:
        place, near = "newer", listed[-1]
    else:
        return
    yield "release_asked", str(asked)
    yield "release_place", place
    yield "release_near", str(near)


def _instead(asked: Version, listed: list[Version]) -> Version | None:
    """A release that was published again under this number, else the nearest of its minor release among others."""
    if asked.local:  # a build of its own index
        return None
    posts = [one for one in listed if one.base_version == asked.base_version and one > asked]
    if posts:
        return posts[-1]
    near = [one for one in listed if one.release[:2] == asked.release[:2]]
    if len(asked.release) < 3 or not near or not listed[0] < asked < listed[-1]:
        return None
    return next((one for one in near if one > asked), near[-1])


def _versions(texts: list[str]) -> Iterator[Version]:
    for text in texts:
        try:
            yield Version(text.strip())
        except InvalidVersion:
            continue
