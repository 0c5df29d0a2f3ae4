"""Reads which settings a log shows as made: in commands that were typed, in calls of code, and in what its writer says
of them. What a message advises is no such setting.
"""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.diagnose.log.cuda_stated import torch_said
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.quick_patterns import when_used

_DONE = FactName.parse("log.done")
#: Texts of which one stands in every line that is read.
SIGNS = ("--", "attn", "xport ", "set ", "=", "asser", "我", "os.", "able_", "cu1", "重", "试", "加")
#: A command, or the next line of one.
_TYPED = when_used(
    r"^\s*(?:[$%>!]\s*|PS [^>\n]{0,200}> ?|[A-Za-z]:\\[^>\n]{0,200}> ?|\([\w.-]{1,60}\) ?\S{0,200}[$#>]? ?)?"
    r"(?:(?:export|set|SET|setx|sudo|nohup|env) |\$env:|[A-Z][A-Z0-9_]{3,60}=\S|--[a-z][\w-]{2,60}(?:[ =]|$)"
    r"|(?:\S{0,200}[/\\])?(?:python[\w.]{0,8}|accelerate|torchrun|deepspeed|vllm|llamafactory-cli|swift|pip3?|uv|docker|bash|sh"
    r"|srun|\w{1,60}\.(?:py|sh|bat|exe))\s)"
)
#: A call, with a value of its own for what it names: as code has it, and no message.
_CALLED = when_used(
    r"^\s{0,200}(?:[\w.]{1,100} ?= ?|return )?[\w.]{1,100}\([^\n]*=|^\s{1,200}\w{3,60} ?= ?[^\s=][^\n]{0,200},?$"
)
#: A call that switches something on or off by its name, as code has it.
_SWITCHED = when_used(r"^\s{0,200}(?:\w+ ?= ?)?(?:\w+\.){1,4}(?:enable|disable)_\w+\(")
_MESSAGE = when_used(r"\b\w+(?:Error|Warning|Exception)\b|[Pp]lease\b|\b(?:[Tt]ry|[Cc]onsider|[Yy]ou)\b")
#: Its writer did it.
_SAID = when_used(
    r"\b(?:I|[Ww]e)(?:'ve| have| had| am|'m)?(?: also| even| already)*"
    r" (?:tried|set|load(?:ed)?|used?|added?|pass(?:ed)?|put|enabled|run|ran|running|using|changed|replaced?|exported"
    r"|did export)\b|\bset already\b|\balready (?:set|use[sd]?|added|tried|passed)\b"
    r"|\b[Ee]ven (?:with|though|after|when)\b|\b[Tt]ried\b"
    r"|\b[Tt]rying to (?:run|use|start|set)\b"
    r"|我(?:已|在|用|把|试|也)|设置了|已经|重跑|重试|试(?:过|了)|加(?:了|上)"
)
_VARIABLE = when_used(r"(?<![\w-])(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]{2,60})=[\"']?(?P<value>[\w./:,-]{1,80})")
#: Where packages are looked for is no setting: another release comes from the same place.
_FLAG = when_used(
    r"(?<![\w-])(?!--(?:extra-)?index-url|--find-links)"
    r"(?P<name>--[a-z][\w-]{2,60})(?:[ =][\"']?(?P<value>[A-Za-z0-9][\w./-]{0,60}))?"
)
_KEY = when_used(r"\b(?P<name>[a-z][a-z0-9_]{3,60}) ?[=:] ?[\"']?(?P<value>[\w.]{1,60})[\"']?")
_SWITCH = when_used(r"(?<!\w)(?P<name>(?:enable|disable)_[a-z][a-z0-9_]{4,60})(?=\(|\b(?! ?[=:]))")
#: A build of torch was installed; where the trouble stays, it went into another Python.
_TORCH_FROM = when_used(r"\binstall [^\n]{0,80}\btorch\b[^\n]{0,120}/whl/(?:\w+/)?(?P<build>cu\d{3})\b")
#: A variable that a line of code sets for itself, and none that is commented out or advised.
_IN_PYTHON = when_used(
    r"^(?:\s|>>>|\.{3}|-{2,5}>|[$%>|]|(?:In )?\[\d*\]:?|(?<!\d)\d{1,5}(?!\d)){0,12}"
    r"os\.(?:environ\[|putenv\(|environ\.setdefault\()[\"'](?P<name>[A-Z][A-Z0-9_]{2,60})[\"'](?:\] ?=|,)"
    r" ?[\"'](?P<value>[\w./:,-]{1,80})[\"']"
)
IN_PYTHON = "os.environ "
#: However a program spells it.
_ATTENTION = when_used(
    r"(?:attn_impl(?:ementation)?|\w_attn|attention_(?:mode|backend|type))[\"']?"
    r" ?[=: ] ?[\"']?(?P<value>sdpa|eager)\b"
)
#: Kept for one log.
_MOST = 40


def settings_in(text: str) -> Iterator[str]:
    """The settings that this line shows as made, in one form: `NAME=value`, `--flag=value`, `key=value`,
    `attention=sdpa`, `enable_tiling()`, `torch-index=cu128`, `os.environ NAME=value`.
    """
    if "os." in text and (found := _IN_PYTHON.match(text)):
        yield f"{IN_PYTHON}{found['name']}={found['value']}"
    if said := torch_said(text):
        yield f"torch-index=cu{said}"
    called = (_CALLED.search(text) or _SWITCHED.search(text)) and not _MESSAGE.search(text)
    if not (_TYPED.search(text) or _SAID.search(text) or called):
        return
    if asked := _TORCH_FROM.search(text):
        yield f"torch-index={asked['build']}"
    yield from settings_named(text)


def settings_done(facts: FactSet) -> tuple[str, ...]:
    """The settings that the log with these facts shows as made."""
    told = facts.value(_DONE)
    return tuple(map(str, told)) if isinstance(told, tuple) else ()


def settings_named(text: str) -> Iterator[str]:
    """The settings that a text names, whoever speaks."""
    for found in _ATTENTION.finditer(text):
        yield f"attention={found['value']}"
    for found in _SWITCH.finditer(text):
        yield f"{found['name']}()"
    for pattern in (_VARIABLE, _FLAG, _KEY):
        for found in pattern.finditer(text):
            value = (found["value"] or "").rstrip(".,;:")
            value = value.lower() if value in ("True", "False", "TRUE", "FALSE") else value
            name = found["name"].replace("_", "-") if pattern is _FLAG else found["name"]  # trainers take both
            yield f"{name}={value}" if value else name


class Done:
    """Collects the settings of one log."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def see(self, text: str, number: int) -> None:
        """Reads one line."""
        if len(self._lines) < _MOST and any(map(text.__contains__, SIGNS)):
            for one in settings_in(text[:1000]):
                self._lines.setdefault(one, number)

    def told(self) -> tuple[tuple[str, ...], int]:
        """The settings in the order of the log, and the line of the first; line 0 where there is none."""
        return tuple(self._lines), min(self._lines.values(), default=0)
