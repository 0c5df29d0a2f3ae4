"""The source line in a compiler's message."""

from __future__ import annotations

from attn_doctor.model.findings import Location
from attn_doctor.quick_patterns import when_used

#: MLIR's `loc("file":line:column): error: …` (https://mlir.llvm.org/docs/Diagnostics/), and clang's shorter form,
#: which newer Tritons write.
_DIAGNOSTIC = when_used(
    r'loc\("(?P<quoted>[^"\n]{1,600})":(?P<line>\d{1,7}):\d{1,6}\)'
    r'|(?P<plain>/[^:\s"]{1,600}):(?P<row>\d{1,7}):\d{1,6}: error:'
)


def place_in(line: str) -> Location | None:
    """The place in one line of a compiler's output, or None."""
    found = _DIAGNOSTIC.search(line[:4000])
    if found is None:
        return None
    return Location(file=found["quoted"] or found["plain"], line=int(found["line"] or found["row"]))
