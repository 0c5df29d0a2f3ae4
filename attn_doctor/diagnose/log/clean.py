"""Removes from a line the additions of launchers, loggers, containers and terminals, and records its origin."""

from __future__ import annotations

import re

from attn_doctor.diagnose.log.unit import Line

#: Colours and other terminal commands, frequent in logs made by tee.
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78cDEHM]")

#: Full-width punctuation of East Asian reports, curly quotes of word processors, special blanks.
WIDE = str.maketrans(
    {"：": ":", "（": "(", "）": ")", "，": ",", "；": ";", "！": "!", "“": '"', "”": '"', "‘": "'", "’": "'",
     "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " ", "\ufeff": None, "\u200b": None}
)  # fmt: skip

_BAR = re.compile(r"(?:[^|\n]{0,80}?:? ?)?\d{1,3}%\|[^|\n]{0,400}\| ?[^\s\[]{1,40} ?\[[^\]\n]{0,80}\]")
_DATE = r"\d{4}[-/.]\d\d[-/.]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_SHORT_DATE = rf"\d\d[-/]\d\d(?:[-/]\d{{2,4}})? {_CLOCK}"
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_PLACE = r"[\w./-]{1,80}"
_LEVEL = (
    rf"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?(?:[|:]{_PLACE}:\d+\])?(?=$|[:\s|-])[:\s|-]{{0,4}}"
)
_ACTOR = r"(?:(?P<actor>[A-Za-z_][\w.:<>()-]{0,80}(?: rank=\d+)?) )?pid=(?P<pid>\d+)"
_DOCKER = r"(?P<docker>[\w.-]{1,60}-\d{1,4}) {1,20}\| (?=\S| )"

#: Prefixes by their first character (several may follow one another): a log is read line by line, and trying all of
#: them on each line would take longer than everything else. Within one expression the order matters.
_PREFIXES = {
    "[": (
        rf"(?P<time>\[(?:{_DATE}[T _,-]|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}[ ,]{{1,2}})?{_CLOCK}{_ZONE}\]:?[ \t]?)",
        r"\[(?:[Rr]ank|RANK) ?[:=]?(?P<rank>\d{1,6})\]:?[ \t]?",
        r"\[default(?P<local>\d{1,4})\]:[ \t]?",
        r"\[\d{1,4},(?P<mpi>\d{1,6})\]<std(?:out|err)>:[ \t]?",
        r"\[PID:[\d*]+\][ \t]?",
        rf"\[(?P<hf>INFO|WARNING|ERROR)\|{_PLACE}:\d+\][ \t]?(?:>> )?",
        rf"\[{_LEVEL}",
        rf"\[(?P<glog>[IWEF])(?:\d{{3,4}}|\d{{8}}) [\d:.]{{8,20}} (?: *\d+ )?{_PLACE}:\d+\] ?",
        rf"\[{_PLACE}\.(?:py|cpp|cc|cu):\d+(?::\w+)?\][ \t]?",
    ),
    "0123456789": (
        rf"(?P<time>{_DATE}[T _,-]{_CLOCK}{_ZONE}:?[ \t]?|{_SHORT_DATE}[ \t]?|{_CLOCK}(?=[ |]|$)[ \t]?)",
        r"(?P<srun>\d{1,5}): (?=\S| )",
        r"(?P<built>\d{1,5}\.\d{2,3})(?:$| (?= *[A-Za-z×│╰├\[\"'~^]))",  # seconds of a container's build
        _DOCKER,
    ),
    "(": (rf"\({_ACTOR}(?:, ip=[\d.a-fA-F:]+)?(?:, [^\s)]+)?\)[ \t]?",),
    "|": (r"\|(?P<letter>[DIWEF])\|", r"\| (?=\S| )"),
    "DIWECF": (rf"{_LEVEL}", rf"(?P<glog>[IWEF])(?:\d{{3,4}}|\d{{8}}) [\d:.]{{8,20}} (?: *\d+ )?{_PLACE}:\d+\] ?"),
    "JFMASOND": (rf"(?P<time>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}(?: \S{{1,60}} [\w.@/-]{{1,60}}(?:\[\d+\])?:)? ?)",),
    # logging's usual format: time - name - level - message
    "-": (r"- (?:[\w.]{1,60} - (?=DEBUG|INFO|WARN|ERROR|CRIT|FATAL))?",),
    "E": (r"E {3,7}(?=\S)",),
    ">": (r">> ", r"> (?=Traceback|  File|[A-Z]\w*Error)"),
    "#": (r"# ?(?=Traceback|  File|[A-Z]\w*Error)", r"#\d{1,3} (?=\d{1,5}\.\d{2,3} )"),
    "abcdefghijklmnopqrstuvwxyz": (
        r"(?:stdout|stderr) [FP] ",
        r"(?P<host>[a-z][a-z0-9-]{0,40}\d): (?=Traceback|  |[A-Z]\w*(?:Error|Exception))",
        _DOCKER,
    ),
}
_BY_FIRST = {
    first: re.compile("|".join(part for firsts, parts in _PREFIXES.items() if first in firsts for part in parts))
    for first in dict.fromkeys("".join(_PREFIXES))
}
_RANKS = ("rank", "local", "mpi", "srun")
_LEVELS = ("level", "hf", "glog", "letter")

#: rich draws tracebacks in boxes; pip and uv draw errors as a tree.
_BOX = re.compile(r"^[\s│┃]*[│┃╭╰├┏┗└┌╮╯][\s─━▶>]*|^[\s]*×\s")
_BOX_END = re.compile(r"\s*[│┃╮╯┓┛]\s*$|[─━]{6,}.?$")
_POINTER = re.compile(r"^(\s*)❱ ?")
_BLANKS = re.compile(r"(?<=\S)[ \t]{2,}")
_MSVC = re.compile(r"\b(?:struct|class|enum) (?=(?:c10|at|torch)::)")
_PART = r"[\w .()<>~+@-]{1,80}"
_WINDOWS_PATH = re.compile(
    rf"\b[A-Za-z]:\\(?:{_PART}\\){{0,40}}{_PART}"  # with a drive
    rf"|(?<=[\w.)>~/-])\\(?:{_PART}\\){{0,40}}[\w <>()+@-]{{2,120}}\.\w{{1,5}}\b"  # relative: only with a file's ending
)


def clean(number: int, text: str) -> Line:
    """One line without additions, with its origin."""
    text = text.rstrip()
    if not text:
        return Line(number, "")
    if not text.isascii():
        text = text.translate(WIDE)
        text = _unboxed(text)
    if "%|" in text:
        text = _BAR.sub("", text)
    origin, level, record, at = "", "", False, 0
    if text:
        origin, level, record, at = _prefixes(text)
    text = text[at:]
    if "  " in text or "\t" in text:
        text = _BLANKS.sub(" ", text.expandtabs(4) if "\t" in text else text)
    if "::" in text:
        text = _MSVC.sub("", text)
    if "\\" in text:
        text = _WINDOWS_PATH.sub(lambda found: found[0].replace("\\", "/"), text)
    return Line(number, text, origin, level, record)


def _unboxed(text: str) -> str:
    if "│" in text or "─" in text or "┃" in text or "╰" in text or "×" in text or "╭" in text:
        text = _BOX_END.sub("", _BOX.sub("", text))
    return _POINTER.sub(r"\1", text)


def _prefixes(text: str) -> tuple[str, str, bool, int]:
    origin, level, record, at = "", "", False, 0
    while at < len(text) and (pattern := _BY_FIRST.get(text[at])):
        found = pattern.match(text, at)
        if found is None:
            break
        at = found.end()
        name, value = found.lastgroup, found[found.lastgroup or 0]
        if name in _RANKS:
            origin = origin or f"rank {value}"
        elif name in _LEVELS:
            level = value[0]
        elif name == "pid":
            origin = origin or f"{found['actor'] or ''} pid {value}".strip()
        elif name in ("docker", "host"):
            origin = origin or value
        record = record or name == "time" or bool(level)
    return origin, level, record, at
