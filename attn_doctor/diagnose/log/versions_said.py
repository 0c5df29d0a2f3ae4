"""Reads the releases of packages that a line says are there, and leaves those that it asks for or was made with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.model.libraries import published
from attn_doctor.quick_patterns import when_used

VERSION = r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:\.?(?:post|dev|rc|a|b)\d{1,10})?(?:\+[\w.]{0,39}\w)?"
#: Name of an attention library as spelled in logs -> distribution.
ATTENTION = {spelled: library.distributions[0] for library in published() for spelled in library.in_logs}
_NAMES = (
    rf"(?P<name>[Tt]orch|PyTorch|[Pp]ytorch|[Tt]riton|{'|'.join(ATTENTION)}"
    r"|pytorch[-_]lightning|mamba[-_]ssm|causal[-_]conv1d|bitsandbytes|diffusers|huggingface[-_]hub|torchao"
    r"|mmcv-full|timm|dgl|fairseq|hydra-core|kaolin|torchcodec|numpy|einops"
    r"|[Tt]ransformers|deepspeed|[Aa]ccelerate|peft|trl|vllm|vLLM|sglang|SGLang|lmdeploy|[Pp]ython)"
)
_PACKAGE = when_used(
    rf"(?<![A-Za-z0-9_./-]){_NAMES}"
    r"[`'\"]?\*{0,2}(?:(?: API server)?[ _][Vv]ersion(?: \(GPU\??\))?(?P<told> is(?= v?\d))?"
    r"|-version|\.__version__(?:\) (?:gives|prints|returns|shows|is)(?= ))?|(?P<zh> ?的? ?版本号?(?:是|为)?))?"
    rf" ?(?:==|[:=.：])?\*{{0,2}} ?['\"]?v?(?P<version>{VERSION})"  # "torch": "2.6.0" in a program's JSON
    r"(?![\w+-]|\.\w)"
)
#: A line of a list made by hand: transformers-4.49.0. In sentences an installer names so what it takes away.
_LISTED = when_used(rf"(?:[-*\u2022] ?)?{_NAMES}-(?P<version>{VERSION})")
_NAMED = when_used(rf"(?<![\w./-]){_NAMES}\b")
#: In such lines versions are required or offered, not found.
_WANTED = when_used(
    r"depends on|requested|no matching"
    r"|requir|need|[<>]|~=|!=|at least|support|built for|built with|compiled|upgrade|install|expected|download"
    r"|incompatible|mismatch|deprecat|wheel|\.whl|collecting|using cached|since|until|removed in|before|after",
    re.IGNORECASE,
)

#: Somebody says what is there: torch==2.6.0+cpu installed.
_IS_INSTALLED = when_used(rf"(?<![\w./-])torch(?:==| )(?P<version>{VERSION}) (?:is |was |already )?installed\b(?! by)")
#: The same of any package, on a line that asks for another release as well: You have torch 2.1.2 and this needs 2.4.
_THERE = when_used(
    r"\b(?:[Yy]ou(?: currently)? have|(?:I|[Ww]e) have|(?:[Yy]ou|I|[Ww]e)(?: are|'re| am|'m) (?:using|on|running)|[Mm]y"
    r"|[Yy]our(?: installed| current)?|[Ii]nstalled|[Cc]urrent|[Ff]ound|[Dd]etected|got)"
    rf" (?:version of )?[`'\"]?{_NAMES}[`'\"]?(?:[ _-][Vv]ersion)?(?: is| ?==| ?[:=])? ?['\"]?v?(?P<version>{VERSION})"
    r"(?![\w+-]|\.\w)"
)
#: Likewise, where the package stands before what is asked: PyTorch >= 2.4 is required but found 2.1.2.
_THERE_ALONE = when_used(
    rf"\b(?:[Yy]ou have|but found|but got|found version) (?:version )?v?(?P<version>{VERSION})(?![\w+-]|\.\w)"
)
#: A condition, a command or a lack, and nothing that is there.
_NOT_SAID = when_used(
    r"\b(?:[Ii]f|[Oo]nce|[Uu]nless|[Uu]ntil|[Ww]hen|[Ww]hether|[Ss]ure|[Ee]nsure|[Ss]hould|[Mm]ust|need to|[Nn]ot?"
    r"|[Rr]ecommended|[Mm]inimum|[Mm]aximum|[Ss]upported(?! but)|[Dd]efault"
    r"|(?<!using the )(?<!have the )(?<!with the )(?<!on the )(?<!installed the )"
    r"(?<!to the )(?<!is the )(?:[Ll]atest|[Nn]ewest)"
    r"|pip)\b[^.,;:\n]{0,20}$"
    r"|(?:如果|假如|若|当|需要|要求|不支持|建议|至少|必须|推荐|最高|最低|支持|最新)[^。，；,.;\n]{0,20}$"
)
#: What stands before and behind a release that is asked for or told of, on a line that says nothing else of the kind.
_ASKED = when_used(
    r"\b(?:[Pp]lease use|[Pp]lease switch to|not find|recommends?|pins?|pinned (?:to|at)"
    r"|(?:added|introduced|new|came) in|(?:code|repo|repository|project|package|build|script) (?:is|was)"
    r" (?:written |made )?for) (?:the )?$"
)
_ASKED_BEHIND = when_used(r" (?:is|are|was) (?:recommended|suggested|assumed|preferred)\b")

#: The first line of what xformers says it was built for, cut before what is there: (you have 2.5.1).
_BUILT_FOR = when_used(rf"\s*PyTorch (?:version )?{VERSION} with C(?:UD?|UDA (?:\d{{4}}|None)?)?\s*$")


def asks_for_versions(text: str) -> bool:
    """True for a line that asks for releases, or offers them."""
    return _WANTED.search(text) is not None and _installed(text) is None


def versions_in(text: str) -> Iterator[tuple[str, str]]:
    """Distribution and release of each package that the line says is there."""
    there = {_distribution(one["name"]): one["version"] for one in _THERE.finditer(text) if _is_said(text, one)}
    wanted = _WANTED.search(text) is not None or _BUILT_FOR.match(text) is not None
    if wanted and (installed := _installed(text)):
        there.setdefault("torch", installed)
    if not there and (alone := _THERE_ALONE.search(text)) and _is_said(text, alone):
        named = {_distribution(one["name"]) for one in _NAMED.finditer(text)}
        there = {name: alone["version"] for name in named if len(named) == 1}
    yield from there.items()
    if wanted:
        return
    listed = _LISTED.fullmatch(text.strip())
    for found in (listed,) if listed else _PACKAGE.finditer(text):
        name = _distribution(found["name"])
        asked = _ASKED.search(text[max(0, found.start() - 60) : found.start()])
        if name in there or asked or _ASKED_BEHIND.match(text, found.end()):
            continue
        if listed or not (found["told"] or found["zh"]) or _is_said(text, found):
            yield name, found["version"]


def _installed(text: str) -> str | None:
    """The torch of which somebody says that it is installed."""
    found = _IS_INSTALLED.search(text)
    return found["version"] if found and _is_said(text, found) else None


def _is_said(text: str, found: re.Match[str]) -> bool:
    return not _NOT_SAID.search(text[max(0, found.start() - 40) : found.start()])


def _distribution(spelled: str) -> str:
    """The distribution that a log names."""
    for pattern, name in ATTENTION.items():
        if re.fullmatch(pattern, spelled):
            return name
    return "torch" if spelled.lower() == "pytorch" else spelled.lower().replace("_", "-")
