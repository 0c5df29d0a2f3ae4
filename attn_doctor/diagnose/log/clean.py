"""Removes from a line the additions of launchers, loggers, containers and terminals, and records its origin."""

from __future__ import annotations

import re
from html import unescape

from attn_doctor.diagnose.log.engines import writer_of
from attn_doctor.diagnose.log.other_languages import in_english, may_be_a_systems_own_words
from attn_doctor.diagnose.log.told_in_other_languages import may_tell_a_symptom, with_symptoms_in_english
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

#: Colours and other terminal commands, frequent in logs made by tee.
ANSI = when_used(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78cDEHM]")
#: What is left of them where a page or a chat dropped the escape itself; only beside a sign that ends a colour.
_BARE_COLOUR = when_used(r"(?<![\x1b])(?<!\\u001b)(?<!\\x1b)(?<!\\033)\[(?:\d{1,3};){0,4}\d{1,3}m")
_ENDS_A_COLOUR = ("[0m", "[0;0m", "[39m", "[39;00m")

#: Python's names with two underscores about them, which markdown takes for bold, and some pages write with stars.
_BOLD = when_used(r"\*\*(init|main|call|getattr|getitem|version|enter|exit|new|del|name)\*\*")
#: Full-width punctuation of East Asian reports, curly quotes of word processors, special blanks.
WIDE = str.maketrans(
    {"：": ":", "（": "(", "）": ")", "，": ",", "；": ";", "！": "!", "“": '"', "”": '"', "‘": "'", "’": "'",
     "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " ", "\ufeff": None, "\u200b": None}
)  # fmt: skip

#: Signs as a web page writes them. Not `&&` or `a & b;` of a shell, nor entities that nobody's error message needs.
_ENTITY = when_used(r"&(?:#\d{2,4}|#x[0-9a-fA-F]{2,4}|quot|apos|lt|gt|amp|nbsp);")

_BAR = when_used(r"(?:[^|\n]{0,80}?:? ?)?\d{1,3}%\|[^|\n]{0,400}\| ?[^\s\[]{1,40} ?\[[^\]\n]{0,80}\]")
#: What is left of a bar whose line was cut, or that was drawn without its blocks.
_REST_OF_BAR = when_used(
    r"^(?:[^\]\n]{0,120}\d\d:\d\d(?:<[^\]\n,]{1,20})?, ?)?[^\]\s]{1,20}(?:it/s|s/it)[^\]\n]{0,80}\](?=[ \t]*\S)"
)
#: The place in the program that a record names before its message.
_RECORD_PLACE = when_used(
    r"[\w.]{1,60} - (?=DEBUG|INFO|WARN|ERROR|CRIT|FATAL)"
    r"|(?:[\w.<>/-]{1,80}:){1,2}\d{1,6}(?: -|\]| \|)?[ \t]"
)
_DATE = r"\d{4}[-/.]\d\d[-/.]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?[AP]M\b)?"
_SHORT_DATE = rf"\d\d[-/]\d\d(?:[-/]\d{{2,4}})? {_CLOCK}"
_ZONE = r"(?: ?(?:(?:Z|UTC)\b|[+-]\d\d:?\d\d))?"
_PLACE = r"[\w./-]{1,80}"
_LEVEL = (
    r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|ERR(?=[]:])|CRITICAL|FATAL)"
    rf"\]?(?:[|:]{_PLACE}:\d+\])?(?=$|[:\s|-])(?:[:\s|]|-(?!-*>)){{0,4}}"
    # logging.basicConfig: level:logger:message
    r"(?:(?<=:)(?![\w.]*(?:Error|Exception|Warning|Failed):)[\w.]{1,60}:(?=[^:]))?"
)
_ACTOR = r"(?:(?P<actor>[A-Za-z_][\w.:<>()-]{0,80}(?: rank=\d+| [A-Z]{2}\d{1,4}){0,3}) )?pid=(?P<pid>\d+)"
#: docker compose: the container's name, which nobody has to number.
_DOCKER = r"(?P<docker>(?=[\d._-]{0,30}[A-Za-z])[\w.@-]{1,60}) {1,30}\| (?=\S| )"
#: journald and syslog: host and program behind the time.
_UNIT = r"(?: \S{1,60} [\w.@/()-]{1,60}\[\d+\]:)?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
#: `Mon Nov 22 10:00:00 2026`, `22/Nov/2026:10:00:00 +0000`, `22-Nov-26 10:00:00`.
_SPOKEN_DATE = (
    rf"(?:{_DAY},? )?(?:{_MONTH} [ \d]\d {_CLOCK}(?: \d{{4}})?"
    rf"|\d\d[-/ ]{_MONTH}[-/ ]\d{{2,4}}[: ]{_CLOCK}(?: [+-]\d{{4}})?)"
)

#: A record of one line as JSON: docker's json-file, cloud logs, structured loggers.
_JSON_RECORD = when_used(
    r'\{[^\n]{0,600}?"(?:log|message|msg|textPayload|MESSAGE|line|event|body|text)": ?"(?P<text>(?:[^"\\]|\\.)+)"'
)
#: A server's answer that says an error.
_JSON_ERROR = when_used(r'"error" ?: ?[{"]|"(?:object|level|severity|type)" ?: ?"(?i:error|fatal)"')
_ESCAPED = when_used(r"\\(?:u(?P<hex>[0-9a-fA-F]{4})|(?P<sign>.))")
_SIGNS = {"n": "", "r": "", "t": "    "}

_HEAD, _FRAME = when_used(r"Traceback \(most recent call last\):?$"), when_used(r' ?File "')

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

#: Prefixes by their first character (several may follow one another): a log is read line by line, and trying all of
#: them on each line would take longer than everything else. Within one expression the order matters.
_PREFIXES = {
    "[": (
        rf"(?P<time>\[(?:{_DATE}[T _,-]|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}[ ,]{{1,2}})?{_CLOCK}{_ZONE}\]:?[ \t]?)",
        r"\[(?:[Rr]ank|RANK) ?[:=]?(?P<rank>\d{1,6})\]:?[ \t]?",
        r"\[default(?P<local>\d{1,4})\]:[ \t]?",
        r"\[\d{1,4},(?P<mpi>\d{1,6})\]<std(?:out|err)>:[ \t]?",
        r"\[PID:[\d*]+\][ \t]?",
        rf"(?P<spoken>\[(?:{_SPOKEN_DATE}|[DIWEC] {_DATE}[T ]{_CLOCK}(?: {_PLACE}:\d+)?)\]:?[ \t]?)",
        rf"\[(?P<hf>INFO|WARNING|ERROR)\|{_PLACE}:\d+\][ \t]?(?:>> )?",
        r"\[(?P<named>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL) {0,5}\| ?[\w.]{1,60}\]:?[ \t]?",  # a level, its logger
        rf"\[{_LEVEL}",
        rf"\[(?P<glog>[IWEF])(?:\d{{3,4}}|\d{{8}}) [\d:.]{{8,20}} (?: *\d+ )?{_PLACE}:\d+\] ?",
        rf"\[{_PLACE}\.(?:py|cpp|cc|cu):\d+(?::\w+)?\][ \t]?",
        r"\[(?P<letter>[DIWEF])\]:?[ \t](?=[ \t]*\S)",  # TensorRT's
        # a tag that some tool puts there: [bash], [pod/trainer-0/main], [trainer][ERROR]
        r"\[(?!Errno|WinError|end of|Previous)[A-Za-z][\w./@:+ -]{0,60}\]:?(?:[ \t](?=[ \t]*\S)|(?=\[))",
    ),
    "0123456789": (
        rf"(?P<time>{_DATE}[T _,-]{_CLOCK}{_ZONE}{_UNIT}:?[ \t]?|{_SHORT_DATE}[ \t]?|{_CLOCK}(?=[ |]|$)[ \t]?)",
        rf"(?P<spoken>{_SPOKEN_DATE}:?[ \t]?)",
        r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}): (?=\S| )",
        r"(?P<srun>\d{1,5}): (?=\S| )",
        r"(?P<built>\d{1,5}\.\d{2,3})(?:$| (?= *[A-Za-z×│╰├\[\"'~^]))",  # seconds of a container's build
        _DOCKER,
    ),
    "(": (
        rf"\({_ACTOR}(?:, [^\s)]+){{0,4}}\)[ \t]?",
        r"\((?:raylet|autoscaler|gcs_server|dashboard\w{0,20})\b[^)\n]{0,60}\)[ \t]?",
    ),
    "|": (r"\|(?P<letter>[DIWEF])\|", r"\| (?=\S| )"),
    "DIWECF": (rf"{_LEVEL}", rf"(?P<glog>[IWEF])(?:\d{{3,4}}|\d{{8}}) [\d:.]{{8,20}} (?: *\d+ )?{_PLACE}:\d+\] ?"),
    "JFMASOND": (rf"(?P<time>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}(?: \S{{1,60}} [\w.@/-]{{1,60}}(?:\[\d+\])?:)? ?)",),
    "MTWFS": (rf"(?P<spoken>{_SPOKEN_DATE}:?[ \t]?)",),
    # logging's usual format: time - name - level - message
    "-": (r"- (?:[\w.]{1,60} - (?=DEBUG|INFO|WARN|ERROR|CRIT|FATAL))?",),
    "E": (r"E {3,7}(?=\S)",),
    ">": (r">> ", r"> (?=\S|  )"),
    "#": (r"# ?(?=Traceback|  File|[A-Z]\w*Error)", r"#\d{1,3} (?=\d{1,5}\.\d{2,3} )", r"##\[\w{1,20}\]"),
    ":": (r"::(?:error|warning|notice|debug)(?: [^:\n]{1,200})?::",),  # GitHub's runner
    "abcdefghijklmnopqrstuvwxyz": (
        r"(?:stdout|stderr) [FP] ",
        r"(?:stdout|stderr|remote|wandb)(?::| \|) ?(?=\S| )",
        r"(?P<host>[a-z][a-z0-9.-]{0,60}\d(?:\.[a-z0-9.-]{1,60})?): (?=Traceback|  |[A-Z]\w*(?:Error|Exception)|\[)",
        # (not `gpu: 3090`, which says what somebody has)
        (
            r"(?P<node>(?!gpus?: ?(?:\d ?[x×*] ?)?(?:nvidia|NVIDIA|geforce|GeForce|[rg]tx|[RG]TX|[A-Z]?\d{2,4}\b))"
            r"(?:node|gpu|worker|host|ip|cn|dgx|compute|pod|trainer|master)[a-z0-9.-]{0,60}): (?=\S| )"
        ),
        r"[\w./-]{1,40}\[\d{1,7}\]: (?=\S| )",
    ),
    _LETTERS: (rf"[^\t\n]{{1,80}}\t[^\t\n]{{1,80}}\t(?P<job>\ufeff?{_DATE}T{_CLOCK}Z[ \t]?)", _DOCKER),
}
_BY_FIRST = {
    first: when_used("|".join(part for firsts, parts in _PREFIXES.items() if first in firsts for part in parts))
    for first in dict.fromkeys("".join(_PREFIXES))
}
_RANKS = ("rank", "local", "mpi", "srun")
_LEVELS = ("level", "hf", "glog", "letter", "named")
_RECORDS = ("time", "spoken", "job")
#: Prefixes that are none of a program's own text, also behind blanks.
_SURE = (*_RECORDS, "rank", "local", "mpi", "pid", "hf", "glog", "level", "named")

#: rich draws tracebacks in boxes; pip and uv draw errors as a tree.
_BOX = when_used(r"^[\s│┃]*[│┃╭╰├┏┗└┌╮╯][\s─━▶>]*|^[\s]*×\s")
_BOX_END = when_used(r"\s*[│┃╮╯┓┛]\s*$|[─━]{6,}.?$")
_POINTER = when_used(r"^(\s*)❱ ?")
_BLANKS = when_used(r"(?<=\S)[ \t]{2,}")
_MSVC = when_used(r"\b(?:struct|class|enum) (?=(?:c10|at|torch)::)")
_PART = r"[\w .()<>~+@-]{1,80}"
_WINDOWS_PATH = when_used(
    rf"\b[A-Za-z]:\\(?:{_PART}\\){{0,40}}{_PART}"  # with a drive
    rf"|(?<=[\w.)>~/-])\\(?:{_PART}\\){{0,40}}[\w <>()+@-]{{2,120}}\.\w{{1,5}}\b"  # relative: only with a file's ending
)


def _told_by_a_bar(found: re.Match[str]) -> str:
    """What a bar's figures say is wrong, where its line ends with it: many trainers name a loss nowhere else."""
    return "loss=nan" if found.end() == len(found.string) and "loss=nan" in found[0] else ""


def clean(number: int, text: str) -> Line:
    """One line without additions, with its origin."""
    text = text.rstrip()
    if not text:
        return Line(number, "")
    if not text.isascii():
        text = text.translate(WIDE)
    if "&" in text and ";" in text:  # copied out of the source of a web page
        text = _ENTITY.sub(lambda found: unescape(found[0]), text)
    if "\\'" in text:  # within a string that a program printed or a server answered
        text = text.replace("\\'", "'")
    if ".init() " in text:  # markdown takes __ for bold
        text = text.replace(".init() got ", ".__init__() got ").replace(".init() missing ", ".__init__() missing ")
    if "**" in text:
        text = _BOLD.sub(r"__\1__", text)
    if "m" in text and any(sign in text for sign in _ENDS_A_COLOUR):
        text = _BARE_COLOUR.sub("", text)
    if "%|" in text:
        text = _BAR.sub(_told_by_a_bar, text)
    if "it/s" in text or "s/it" in text:
        text = _REST_OF_BAR.sub("", text, count=1)
    if not text.isascii():
        text = _unboxed(text)
    origin, level, record, at = "", "", False, 0
    if text:
        origin, level, record, at = _prefixes(text)
    writer = writer_of(text[: at + 1]) if at > 3 and "]" in text[: at + 1] else ""
    text = text[at:]
    if text.startswith("{") and (written := _JSON_RECORD.match(text)):
        inner = clean(number, ANSI.sub("", _ESCAPED.sub(_unescaped, written["text"])))
        level = level or inner.level or ("E" if _JSON_ERROR.search(text) else "")
        return Line(number, inner.text, origin or inner.origin, level, record or inner.record, inner.writer)
    if at and not text.isascii():
        text = _unboxed(text)
    if "  " in text or "\t" in text:
        text = _BLANKS.sub(" ", text.expandtabs(4) if "\t" in text else text)
    if "::" in text:
        text = _MSVC.sub("", text)
    if "\\" in text:
        text = _WINDOWS_PATH.sub(lambda found: found[0].replace("\\", "/"), text)
    if may_be_a_systems_own_words(text):
        text = in_english(text)
    if may_tell_a_symptom(text):
        text = with_symptoms_in_english(text)
    return Line(number, text, origin, level, record, writer)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found["hex"], 16)) if found["hex"] else _SIGNS.get(found["sign"], found["sign"])


def _unboxed(text: str) -> str:
    if "│" in text or "─" in text or "┃" in text or "╰" in text or "×" in text or "╭" in text:
        text = _BOX_END.sub("", _BOX.sub("", text))
    return _POINTER.sub(r"\1", text)


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _prefixes(text: str) -> tuple[str, str, bool, int]:
    origin, level, record, at = "", "", False, 0
    while (place := _past_blanks(text, at)) < len(text) and (pattern := _BY_FIRST.get(text[place])):
        found = pattern.match(text, place)
        if found is None or (place > at and found.lastgroup not in _SURE):
            break
        at = found.end()
        name, value = found.lastgroup, found[found.lastgroup or 0]
        if name in _RANKS:
            origin = origin or f"rank {value}"
        elif name in _LEVELS:
            level = value[0]
        elif name == "pid":
            origin = origin or f"{found['actor'] or ''} pid {value}".strip()
        elif name in ("docker", "host", "node"):
            origin = origin or value
        record = record or name in _RECORDS or bool(level)
        if record and (named := _RECORD_PLACE.match(text, at)):
            at = named.end()
    return origin, level, record, at


def without_a_prefix(lines: list[Line]) -> list[Line]:
    """The lines without what some tool of nobody's knowledge puts before each: a traceback's head and its first frame
    show it."""
    prefix = next(filter(None, map(_before_a_traceback, lines, lines[1:])), None)
    if prefix is None:
        return lines
    return [
        replace(line, text=line.text[found.end() :]) if (found := prefix.match(line.text)) else line for line in lines
    ]


def _before_a_traceback(head: Line, frame: Line) -> re.Pattern[str] | None:
    found = _HEAD.search(head.text)
    if found is None or not found.start():
        return None
    spelled = re.sub(r"\d+", lambda _: r"\d+", re.escape(head.text[: found.start()].rstrip()))
    prefix = re.compile(spelled + " ?")
    return prefix if (after := prefix.match(frame.text)) and _FRAME.match(frame.text, after.end()) else None
