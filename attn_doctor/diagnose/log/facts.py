"""What a log tells of the machine it was written on, and what one message tells of itself, as facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.owners import owner
from attn_doctor.diagnose.log.unit import Line, Unit
from attn_doctor.model.facts import Fact, FactName, Known, Origin, Value
from attn_doctor.model.libraries import published
from attn_doctor.model.vocabulary import ValueType, term_of, value_fault
from attn_doctor.recipes.data.gpu_table import GpuNames

#: Texts that a large log is looked through for on account of the facts in their lines.
TELLING = (
    "ompute capability", "CUDA capability", "has capability", "ardware limit", "GeForce", "Tesla ", "Quadro ",
    "PyTorch version", "torch version", "Driver Version", "(you have ",
)  # fmt: skip

_WORTH = re.compile(
    r"apability|ardware limit|NVIDIA|GeForce|Tesla|Quadro|RTX|[Vv]ersion|[Tt]orch|riton|lash.?[Aa]tt"
    r"|ormers|ython|CUDA ="
)
_CAPABILITY = re.compile(
    r"(?:CUDA|[Cc]ompute) [Cc]apability:? ?(?:sm_?(?P<sm>\d{1,2})(?P<minor>\d)[af]?\b|(?P<dotted>\d{1,2}\.\d)\b)"
    r"|[Yy]our GPU has capability \((?P<a>\d{1,2}), ?(?P<b>\d)\)"
    r"|CUDA = (?P<banner>\d{1,2}\.\d)\. CUDA Toolkit"  # unsloth's banner
)
#: A capability that is asked for is none that is there.
_ASKED = re.compile(r"(?:least|minimum|require[sd]?|needs?|only|>=|than|from|up to|supports?|[<>]=?)[^.;,]{0,60}$")
_NAMES = re.compile(r"NVIDIA|GeForce|Tesla|Quadro|\bRTX \d|\bRTX PRO|\d ?x ?RTX")
_LIMIT = re.compile(r"ardware limit:? ?(?P<limit>\d{5,6})\b")
_VERSION = r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:\.?(?:post|dev|rc|a|b)\d{1,10})?(?:\+[\w.]{1,40})?"
#: As logs spell the names of attention libraries -> the distribution.
_ATTENTION = {spelled: library.distributions[0] for library in published() for spelled in library.in_logs}
_PACKAGE = re.compile(
    rf"(?<![\w./-])(?P<name>[Tt]orch|PyTorch|Pytorch|[Tt]riton|{'|'.join(_ATTENTION)}"
    r"|[Tt]ransformers|deepspeed|[Aa]ccelerate|peft|trl|vllm|[Pp]ython)"
    rf"(?:[ _][Vv]ersion|-version)? ?(?:==|[:=])? ?v?(?P<version>{_VERSION})(?![\w.-])"
)
#: xformers' own: what it was built for, and what is there.
_HAVE = re.compile(rf"PyTorch \S{{1,60}} with CUDA \S{{1,20}} \(you have (?P<version>{_VERSION})\)")
_DRIVER = re.compile(r"[Dd]river [Vv]ersion:? ?(?P<version>\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")
#: In such lines versions are asked for or offered, not found.
_WANTED = re.compile(
    r"requir|need|[<>]|~=|!=|at least|support|built for|built with|compiled|upgrade|install|expected|download"
    r"|incompatible|mismatch|deprecat|wheel|\.whl|collecting|using cached|since|until|removed in|before|after",
    re.IGNORECASE,
)

_SDPA = re.compile(
    r"query\.dtype: ?(?P<q>\S+) key\.dtype: ?(?P<k>\S+) and value\.dtype: ?(?P<v>\S+?)(?: instead|\.?$)", re.MULTILINE
)
_ROLE = re.compile(
    r"\b(?P<role>[qkv]|query|key|value)(?:[._ ]dtype *)?[:=] ?(?:torch\.)?"
    r"(?P<dtype>float32|float16|bfloat16|half|float)\b"
)
_FLOAT = re.compile(r"(?:c10::|torch\.)?(?:float|Float|float32)\Z")
#: Mangled, or as `c++filt` spells it.
_SYMBOL = re.compile(r"undefined symbol: ?(?P<symbol>(?:[a-z ]{4,20} for )?\w+::[^\n]{1,400}|[\w@.$]+)")
_LIBRARY = re.compile(r"(?P<library>[\w+.-]+\.so(?:\.[\d.]+)?): cannot open shared object")
_CXX_FILE = re.compile(r"\(?(?P<path>[\w./:~+-]{2,300}\.(?:h|hpp|cuh|cu|cpp|cc)):\d+\)?")
_BINARY = re.compile(r"(?P<path>[\w./~+-]{2,400}\.(?:so|pyd))\b")


def _distribution(spelled: str) -> str:
    """The distribution that a log names."""
    for pattern, name in _ATTENTION.items():
        if re.fullmatch(pattern, spelled):
            return name
    return "torch" if spelled in ("PyTorch", "Pytorch") else spelled.lower()


class Clues:
    """Gathers what the lines of a log tell of the machine and its packages. What they tell in two ways is not told."""

    _names: GpuNames | None = None

    def __init__(self) -> None:
        self._told: dict[str, dict[str, int]] = {}

    def see(self, line: Line) -> None:
        """Takes in one line."""
        text = line.text
        if not _WORTH.search(text):
            return
        text = text[:2000]
        for found in _CAPABILITY.finditer(text):
            if not _ASKED.search(text[: found.start() + 4]):
                self._tell("gpu.0.compute_capability", _dotted(found), line.number)
        limit = _LIMIT.search(text)
        if limit:
            self._tell("gpu.0.shared_memory_bytes", limit["limit"], line.number)
            of_limit = self.names().of_limit(int(limit["limit"]))
            if of_limit:
                self._tell("gpu.0.compute_capability", of_limit, line.number)
        elif _NAMES.search(text):
            named = self.names().capability(text)
            if named and not _ASKED.search(text.partition(" GPU")[0][-60:]):
                self._tell("gpu.0.compute_capability", named, line.number)
        driver = _DRIVER.search(text)
        if driver:
            self._tell("driver.version", driver["version"], line.number)
        have = _HAVE.search(text)
        if have:
            self._package("torch", have["version"], line.number)
        elif not _WANTED.search(text):
            for found in _PACKAGE.finditer(text):
                self._package(_distribution(found["name"]), found["version"], line.number)

    def _package(self, name: str, version: str, line: int) -> None:
        if name == "python":
            self._tell("python.version", version, line)
            return
        self._tell(f"package.{name}.version", version, line)

    def _tell(self, name: str, value: str, line: int) -> None:
        self._told.setdefault(name, {}).setdefault(value, line)

    @classmethod
    def names(cls) -> GpuNames:
        """The table of GPUs, read when the first name is met."""
        if cls._names is None:
            cls._names = GpuNames()
        return cls._names

    def facts(self, log: str) -> Iterator[Fact]:
        """What was told in one way only."""
        for name, values in self._told.items():
            if len(values) == 1:
                ((value, line),) = values.items()
                made = fact(FactName.parse(name), value, log, line)
                if made is not None:
                    yield made


def of_match(match: Match, log: str) -> Iterator[Fact]:
    """What the pattern extracts, and what the unit tells of itself."""
    groups = dict(match.told)
    for group, name in match.pattern.extracts:
        if group in groups:
            made = fact(name, groups[group], log, match.line)
            if made is not None:
                yield made
    yield from of_unit(match.unit, log)


def of_unit(unit: Unit, log: str) -> Iterator[Fact]:
    """The `log.*` facts of one unit."""
    text = unit.text
    roles = fp32_operands(text)
    if roles is not None:
        told = _SDPA.search(text) or _ROLE.search(text)
        yield _log_fact("fp32_operands", roles, log, _line_of(unit, text, told))
    owners = _owners(unit)
    if owners:
        where = max((line.number for line in unit.lines if owners[-1][0] in line.text), default=unit.first)
        names = [name for _, name in owners]
        yield _log_fact("owners", tuple(dict.fromkeys(names)), log, unit.first)
        yield _log_fact("innermost_owner", names[-1], log, where)
    symbol = _SYMBOL.search(text)
    if symbol:
        yield _log_fact("symbol", symbol["symbol"], log, _line_of(unit, text, symbol))
    library = _LIBRARY.search(text)
    if library:
        yield _log_fact("library", library["library"], log, _line_of(unit, text, library))


def _line_of(unit: Unit, text: str, found: re.Match[str] | None) -> int:
    """The line of the log that the match in the unit's text begins in."""
    return unit.lines[text.count("\n", 0, found.start())].number if found else unit.first


def fp32_operands(text: str) -> tuple[str, ...] | None:
    """Which of q, k and v a message says is float32; None where it does not name the dtypes of two of them at least."""
    found = _SDPA.search(text)
    if found:
        dtypes = {role: found[role] for role in "qkv"}
    else:
        dtypes = {match["role"][0]: match["dtype"] for match in _ROLE.finditer(text)}
        if len(dtypes) < 2:
            return None
    return tuple(role for role in "qkv" if role in dtypes and _FLOAT.match(dtypes[role].rstrip(".,")))


def _owners(unit: Unit) -> list[tuple[str, str]]:
    """Path and owner of each file that the unit names, the innermost last."""
    message = "\n".join(line.text for line in unit.lines[unit.message_at :])
    paths = [path for path, _ in unit.frames]
    paths += [found["path"] for found in _BINARY.finditer(message)]
    paths += [found["path"] for found in _CXX_FILE.finditer(message)]
    return [(path, name) for path in paths if (name := owner(path))]


def fact(name: FactName, value: str, log: str, line: int) -> Fact | None:
    """A fact that a log tells; None where the text is no value of it."""
    term = term_of(name)
    made: Value = value
    if term is not None and term.kind is ValueType.INTEGER:
        if not value.isdigit():
            return None
        made = int(value)
    if term is None or value_fault(term.kind, made):
        return None
    return Fact(name=name, state=Known(made), how=f"line {line} of {log}", origin=Origin.DERIVED)


def _log_fact(attribute: str, value: Value, log: str, line: int) -> Fact:
    return Fact(
        name=FactName("log", "", attribute), state=Known(value), how=f"line {line} of {log}", origin=Origin.DERIVED
    )


def _dotted(found: re.Match[str]) -> str:
    for name in ("dotted", "banner"):
        if found[name]:
            return found[name]
    return f"{found['sm']}.{found['minor']}" if found["sm"] else f"{found['a']}.{found['b']}"
