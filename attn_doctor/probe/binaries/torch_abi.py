"""Which std::string the installed torch was built with, from the symbols that its libc10.so exports."""

from __future__ import annotations

from pathlib import Path

from .mangled import StringAbi
from .reader import ElfFile
from .symbols import Symbols, gnu_hash
from .unreadable import CannotRead, Unreadable

_NEW = b"NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_OLD = b"Ss"
#: c10::Error's constructor and torchCheckFail, c10/util/Exception.h. Every torch since 1.10 exports both.
_TELLING = (
    b"_ZN3c105ErrorC1ENS_14SourceLocationE%s",
    b"_ZN3c105ErrorC2ENS_14SourceLocationE%s",
    b"_ZN3c106detail14torchCheckFailEPKcS2_jRK%s",
)


def torch_abi(torch_lib: Path) -> StringAbi | Unreadable | None:
    """The ABI of the torch with this lib folder; None when its libc10.so exports none of these symbols."""
    path = torch_lib / "libc10.so"
    try:
        with ElfFile(str(path)) as elf:
            symbols = Symbols(elf)
            for abi, string in ((StringAbi.NEW, _NEW), (StringAbi.OLD, _OLD)):
                names = [pattern % string for pattern in _TELLING]
                if any(symbols.exports(name, gnu_hash(name)) for name in names):
                    return abi
    except CannotRead as problem:
        return problem.about(path)
    return None
