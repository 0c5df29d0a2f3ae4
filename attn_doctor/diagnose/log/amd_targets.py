"""Reads from a line which target of AMD's compiler (gfx1030) its GPU is of: named itself, or by the GPU's product name.

Source of the names: https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

#: One of them stands in every line that is looked at.
SIGNS = (
    *("gfx", "RX ", "RX5", "RX6", "RX7", "RX9", "adeon", "rx ", "rx5", "rx6", "rx7", "rx9"),
    *("AMD 6", "AMD 7", "AMD 9", "amd 6", "amd 7", "amd 9"),
    *("PRO W", "ro WX", "Vega", "Ryzen AI", "Strix", "780M", "680M", "890M", "MI50", "MI60", "MI25", "MI100"),
)

#: A target that a program looks for, lists or compiles is not the GPU's.
_TARGET = when_used(r"(?<![\w-])(?P<gfx>gfx(?:8\d\d|9\d[0-9a-c]|1[0-2]\d\d))\b(?!\s*[,;'\"\]|]\s*['\"]?gfx)")
_LISTED = when_used(
    r"gfx\w{3,5}\W{1,4}gfx|--offload-arch|TARGETS|ARCH(?:S|_LIST)?\b|upport\w* (?:arch|target|gfx)|compiled for"
)
#: People write them in small letters as well.
_BRANDS = when_used(r"RX|AMD")
_BY_NAME = tuple(
    (when_used(rf"(?<![\w.])(?:{_BRANDS.sub(lambda brand: f'(?i:{brand[0]})', name)})(?!\d)"), target)
    for name, target in (
        (r"RX ?(?:470|480|570|580|590)|(?i:Pro) WX ?[457]100", "gfx803"),
        (r"(?:RX )?Vega ?(?:56|64|Frontier)", "gfx900"),
        (r"Radeon VII|MI[56]0", "gfx906"),
        (r"MI25", "gfx900"),
        (r"MI100", "gfx908"),
        (r"(?:RX ?)?(?:5600|5700)(?: ?XT|M| Series)|RX ?5[67]00", "gfx1010"),
        (r"RX ?5[35]00", "gfx1012"),
        (r"(?:RX ?|AMD )6(?:800|900|950)(?![MS])", "gfx1030"),
        (r"(?:RX ?|AMD )67[05]0|RX ?6800M", "gfx1031"),
        (r"(?:RX ?|AMD )66[05]0|RX ?6[67]00[MS]", "gfx1032"),
        (r"RX ?6[45]\d0", "gfx1034"),
        (r"(?:Radeon )?6[68]0M", "gfx1035"),
        (r"RX ?79\d0|PRO W7900|79[05]0 ?(?:XTX?|xtx?)", "gfx1100"),
        (r"RX ?7[78]\d0|7[78]00 ?(?:XT|xt)", "gfx1101"),
        (r"RX ?7600|7600 ?(?:XT|xt)", "gfx1102"),
        (r"(?:Radeon )?7[468]0M", "gfx1103"),
        (r"(?:Radeon )?8[89]0M", "gfx1150"),
        (r"Radeon 80[56]0S|Ryzen AI Max|Strix Halo", "gfx1151"),
        (r"RX ?9060", "gfx1200"),
        (r"RX ?9070", "gfx1201"),
    )
)


def target_in(text: str) -> str | None:
    """The one target that a line names or means; None for none, and for a list of them."""
    if "gfx" in text:
        named = {found["gfx"] for found in _TARGET.finditer(text)}
        return named.pop() if len(named) == 1 and not _LISTED.search(text) else None
    meant = {target for pattern, target in _BY_NAME if pattern.search(text)}
    return meant.pop() if len(meant) == 1 else None
