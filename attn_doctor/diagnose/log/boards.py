"""Tells that a log is of a Jetson where no line says so: by NVIDIA's own torch for one, by the file that tells which
Linux for Tegra it is, or by CUDA 10 on arm64, which only these boards had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attn_doctor.quick_patterns import when_used

#: Under these names; none of them is a fact of the log's by itself.
_MADE_FOR, _OF_CUDA_10, _REFUSED = "said.board", "said.cuda_10", "said.wheel_refused"
#: Wheels of torch's own index say manylinux or name their build, +cu124; those of others for small boards a commit.
_WHEEL = when_used(
    r"\btorch-\d\.\d{1,2}\.\d{1,2}(?:(?:a\d)?\+(?:[0-9a-f]{6,10}\.)?nv\d\d\.\d\d)?-cp3\d{1,2}-cp3\d{1,2}m?-linux_aarch64\.whl"
)
_CUDA_10 = when_used(r"\blib(?:cudart\.so\.10\.\d|cublas\.so\.10)\b")
#: The first line of /etc/nv_tegra_release, or its name.
_RELEASE = when_used(r"/etc/nv_tegra_release\b|^\s*# R\d\d \(release\), REVISION: \d")
_NOT_FOR_THIS = when_used(r"not a supported wheel|current platform")


def told_in(text: str) -> Iterator[tuple[str, str]]:
    """What a line tells of the board that it may be of."""
    if "linux_aarch64.whl" in text and _WHEEL.search(text):
        yield (_REFUSED if _NOT_FOR_THIS.search(text) else _MADE_FOR), "Jetson"
    if ("nv_tegra" in text or "(release), REVISION" in text) and _RELEASE.search(text):
        yield _MADE_FOR, "Jetson"
    if ".so.10" in text and _CUDA_10.search(text):
        yield _OF_CUDA_10, "Jetson"


def agreed(told: Mapping[str, Mapping[str, int]]) -> Mapping[str, dict[str, int]]:
    """The board, with the line that tells it; nothing where a line says it already, or the wheel was not taken."""
    if "log.board" in told or _REFUSED in told:
        return {}
    line = min(told.get(_MADE_FOR, {}).values(), default=0)
    if not line and set(told.get("node.machine", {})) == {"aarch64"}:
        line = min(told.get(_OF_CUDA_10, {}).values(), default=0)
    if not line:
        return {}
    of_a_board = (("log.board", "Jetson"), ("node.system", "Linux"), ("node.machine", "aarch64"))
    return {name: {value: line} for name, value in of_a_board if name not in told}
