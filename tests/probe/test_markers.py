"""Plain markers are decided as packaging decides them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker

from attn_doctor.probe.packages import requirements

ENVIRONMENT = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_machine": "x86_64",
    "platform_system": "Linux",
    "python_version": "3.11",
    "python_full_version": "3.11.7",
    "platform_release": "6.1",
    "implementation_name": "cpython",
}
NAMES = st.sampled_from([*ENVIRONMENT, "extra"])
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "~="])
WANTED = st.sampled_from(
    [
        "3.11",
        "3.9",
        "3.11.7",
        "3.*",
        "4",
        "linux",
        "Linux",
        "win32",
        "x86_64",
        "aarch64",
        "v1",
        "dev",
        "De-v",
        "posix",
        "",
    ]
)
PARTS = st.tuples(NAMES, SIGNS, st.sampled_from("\"'"), WANTED).map(lambda p: f"{p[0]} {p[1]} {p[2]}{p[3]}{p[2]}")
MARKERS = st.lists(PARTS, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([" and ", " or "]).map(lambda word: word.join(parts))
)


@given(marker=MARKERS, extra=st.sampled_from(["", "dev", "de_v"]))
def test_the_same_answer(marker: str, extra: str) -> None:
    """Or none."""
    found = requirements._plainly_applies(marker, extra, ENVIRONMENT)

    if found is not None:
        assert found == Marker(marker).evaluate({**ENVIRONMENT, "extra": extra})


def test_the_usual_ones_need_no_parser() -> None:
    """Otherwise every start would import it."""
    for marker, expected in {
        'python_version < "3.12"': True,
        "platform_system == 'Linux' and platform_machine == \"x86_64\"": True,
        "sys_platform == 'win32'": False,
        'python_version >= "3.8" and extra == "dev"': False,
    }.items():
        assert requirements._plainly_applies(marker, "", ENVIRONMENT) is expected
