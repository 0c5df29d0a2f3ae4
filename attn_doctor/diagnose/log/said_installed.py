"""Reads which packages a log says are installed: an installer with their releases, and whoever wrote it in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.subjects import every_named
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.quick_patterns import when_used

#: The facts that name them: all that are there, and those that came while the log was written.
INSTALLED, PUT_IN = "log.installed", "log.put_in"
#: Kept for one log.
_MOST = 40
#: Texts of which one stands in every line that is read.
SIGNS = (
    *("nstall", "nstala", "already satisfied", "装", "インストール", "설치", "станов", "没", "works"),
    *("pip list", "pip show", "pip freeze", "pip3 ", "import flash_attn", "import xformers", "import triton"),
)
#: What pip says it put in, or found in its place.
_PUT_IN = when_used(r"^\s*Successfully installed (?P<all>\S[^\n]{0,4000})")
_PUT = when_used(r"(?P<name>[A-Za-z][\w.]*(?:-[A-Za-z][\w.]*)*)-(?P<version>\d[\w.+!]*)(?= |$)")
_FOUND_THERE = when_used(
    r"^\s*Requirement already satisfied: (?P<name>[A-Za-z][\w.-]{1,60})[^\n(]{0,60}? in \S[^\n]{0,300} "
    r"\((?P<version>\d[\w.+]*)\)\s*$"
)
#: A cell of a notebook that has an installer put packages in.
_CELL = when_used(r"(?<!\S)[!%]\s?(?:python3? -m )?(?:uv )?pip3? install (?P<all>[^\n;&|]{1,400})")
_NAMED = when_used(r"(?<!\S)[\"']?(?P<name>[A-Za-z][\w.-]{1,60}?)(?:\[[\w,-]{1,60}\])?(?=[\"']?(?:[=<>~!]|\s|$))")
_FOUND = when_used(r"\bRequirement already satisfied:? (?P<what>[A-Za-z][\w.-]{1,60})")
_HOW = r"(?: (?:already|just|also|even|successfully|correctly|properly|manually|definitely|both|all|now|indeed)){0,3}"
_DID = rf"\b(?:I|[Ww]e)(?:'ve|’ve| have| had)?{_HOW} (?:uninstalled and )?(?:re)?i"
_ZH = r"(?:pip3?|conda|uv)?(?:成功|正确|正常)? ?(?:安装|装)"
_THING = r"[A-Za-z][\w .=、和+-]{1,60}?) ?(?:库|包)?(?:我|也)?"
_NOT = r"[^\n.;:,]{0,40}(?:\b(?:not|never|no|nor|only|but|if)\b|n['’]t\b|不)"
_NAME = r"(?P<what>[A-Za-z][\w .=+-]{1,60}?)"
_GERMAN = r"(?:aber |doch |bereits |schon |korrekt |erfolgreich ){0,2}installiert\b"
#: Whoever says it did it, or finds it there: the names stand behind the verb,
_BEHIND = (
    rf"(?:^\W{{0,4}}[Ii]|{_DID})nstalled{_HOW} (?P<what>[^\n]{{1,160}})",
    rf"\b(?:I|[Ww]e) did{_HOW} (?:re)?install (?P<what>[^\n]{{1,160}})",
    r"\b(?:[Aa]lready|[Hh]ave|[Ss]uccessfully|[Cc]orrectly) (?:re)?installed (?P<what>[^\n]{1,160})",
    r"\b(?:[Aa]fter|[Dd]espite) (?:having )?(?:re)?install(?:ing|ed) (?P<what>[^\n]{1,160})",
    r"\bpip3? (?:list|freeze|show)`?(?: also)? (?:shows?|lists?|has|displays|confirms) (?P<what>[^\n]{1,100})",
    rf"(?:已经?|成功|明明|确实|我[也都是]?)(?:已|用)?经? ?{_ZH}[好上]?了?(?:的是)? ?(?P<what>[A-Za-z][^\n。]{{1,80}})",
    r"(?:^|[，。,；\s])(?:安装|装)了 ?(?P<what>[A-Za-z][^\n。；;]{1,80})",
    r"(?<![A-Za-z])pip3? (?:list|freeze|show)`?(?:里面?|中|也|都)?(?:有|显示) ?(?P<what>[A-Za-z][^\n。；;，,]{1,60})",
    r"\b(?:[Jj]['’]ai|[Yy]a|[Hh]o) (?:déjà |bien |già )?(?:instal(?:lé|lato|é)) (?P<what>[A-Za-z][^\n.;:]{1,80})",
    r"\b(?:[Уу]становил|[Пп]оставил)[аи]? (?P<what>[A-Za-z][^\n.;:]{1,60})",
)
#: No sentence ends in it; a release has its points.
_PART, _PART_WITH_COMMAS = r"(?:[^\n.;:,]|(?<=\d)\.(?=[\dp])){2,80}?", r"(?:[^\n.;:]|(?<=\d)\.(?=[\dp])){2,80}?"
_WENT = r"succe\w{1,8}|worked|works|went (?:fine|well|through)|completed?|finished"
#: or before it.
_BEFORE = (
    rf"\b(?:have|has|had|[Ww]ith) (?P<what>{_PART_WITH_COMMAS}){_HOW} installed\b(?! in order)",
    rf"(?P<what>{_PART}),? (?:is|are|was|were|has been|have been|got){_HOW} (?:re)?installed\b",
    rf"(?P<what>{_PART}) installed (?:successfully|fine|correctly|just fine|ok\b|OK\b|without)",
    rf"\b(?:pip3? install|[Ii]nstall(?:ation)? of) (?P<what>{_PART})`? (?:has |was |is )?(?:{_WENT})\b",
    r"\bpip3? show (?P<what>[A-Za-z][\w-]{1,60})[`'\"]?:? (?:says|shows|prints|gives|lists|reports|has|finds)\b",
    r"\bimport (?P<what>[A-Za-z]\w{1,60})\b[^\n]{0,80}?[)`'\" ] (?:prints|works?|shows|succeeds|runs|goes fine)\b",
    r"(?<![A-Za-z])pip3? install (?P<what>[A-Za-z][\w.=<>-]{1,60}) ?(?:已经?)?(?:成功|没问题|没有问题)",
    rf"\bimport (?P<what>[A-Za-z]\w{{2,40}})(?!{_NOT})[^\n.;:,]{{0,40}}?(?:\bworks\b|没问题|没有问题|正常|成功)",
    rf"\b{_NAME} (?:ist|sind|habe ich|wurde) {_GERMAN}",
    rf"\b(?:[Ii]ch habe|habe ich|wir haben) {_NAME} {_GERMAN}",
    rf"\b{_NAME} (?:est (?:bien |déjà )?installé|está (?:ya |bien )?instalad[oa]|è (?:già )?installato)\b",
    rf"\b{_NAME} ?(?:は|を|も|が)?(?:すでに|既に)?インストール(?:済み|しました|(?:して|されて)(?:いる|います))",
    rf"\b{_NAME}(?:은|는|을|를|도|이|가)? ?(?:이미 )?설치(?:했|됐|완료|(?:되어|돼) ?있(?!지))",
    rf"\b{_NAME} (?:уже |точно ){{0,2}}установлен[аоы]?\b",
    rf"(?P<what>{_THING}(?:都|明明|确实|已经?|成功)(?:已经?)?{_ZH}",
    rf"(?P<what>{_THING}(?:都)?{_ZH}(?:好|上|成功)",
)
_SAYS = (*((when_used(one), False) for one in _BEHIND), *((when_used(one), True) for one in _BEFORE))
#: The sentence goes on with something else.
_ENDS = when_used(
    r"\b(?:but|however|though|although|while|yet|when|then|because|so|to|for|except|besides|without|still|not|after|"
    r"before|via|using|by|following)\b|[.!?;](?=\s|$)|[，。；！？]|(?:但|可是|不过|然后|之后|以后|后|还是|仍)"
    r"|, (?=[^,\n]{1,40}?\b(?:is|are|was|does|do|has|fails?|can)\b)"
    r"|\band (?:I|it|we|the|still|now|tried|get|got|run|ran|when|then)\b|n['’]t\b"
)
#: It is asked for, asked, or denied.
_DOUBT = when_used(
    r"(?:n['’]t\b|\b(?:not|never|[Ii]f|[Ww]hen|[Ww]hether|[Uu]nless|[Uu]ntil|[Oo]nce|sure|[Cc]heck|[Ee]nsure|[Vv]erify"
    r"|[Nn]eeds?|[Rr]equires?|[Pp]lease|[Ss]hould|[Mm]ust|[Hh]ow|[Cc]ould|[Cc]an|[Oo]nly|[Aa]ssum\w{1,5}|[Nn]o|[Bb]efore"
    r"|[Dd]o(?:es)? (?:I|you|we|it)|[Yy]ou|[Ww]ould|[Ff]ail\w{0,3}|\w{0,40}(?:Error|Exception|Warning)|WARNING)\b"
    r"|\b(?:nicht|kein\w{0,2}|wenn|ob|pas|si|если|не|ли)\b|没|未|不|无法|是否|如果|请|需|怎么|如何|确保|检查|必须)[^.。，,;；]{0,80}$"
)
#: What follows takes it back.
_TAKEN_BACK = when_used(
    r"^(?:[^.\n]{0,40}\?|[^.\n]{0,20}\b(?:but it (?:fail|error)|only (?:on|for|if)|or not)"
    r"|\W{0,4}(?:[Ff]alse|FALSE|[Nn]o|None)\b|[^，。\n]{0,8}(?:失败|不成功|吗)|か)"
)
_TOKEN = when_used(r"(?<![\w./\\-])[A-Za-z][\w-]{2,60}(?![\w/\\])", re.ASCII)


def installed_in(text: str) -> Iterator[tuple[str, str]]:
    """Distribution and release that an installer says are there from now on, or were there before."""
    if "uccessfully installed" in text and (put := _PUT_IN.match(text)):
        for one in _PUT.finditer(put["all"]):
            yield canonical_name(one["name"]), one["version"]
    elif "already satisfied" in text and (there := _FOUND_THERE.match(text)):
        yield canonical_name(there["name"]), there["version"]


def put_in(text: str) -> Iterator[str]:
    """Distributions that an installer puts in, as its last line or a notebook's cell says."""
    if "uccessfully installed" in text:
        yield from (name for name, _ in installed_in(text))
    elif " install " in text and (cell := _CELL.search(text)):
        yield from (canonical_name(one["name"]) for one in _NAMED.finditer(cell["all"]))


def said_installed_in(text: str) -> Iterator[str]:
    """Known distributions, and those of a name that no word has, that a line says are installed."""
    if found := _FOUND.search(text):
        yield canonical_name(found["what"])
        return
    for pattern, verb_behind in _SAYS:
        for said in pattern.finditer(text):
            before = text[: said.end("what") if verb_behind else said.start("what")]
            if not (_DOUBT.search(before) or _TAKEN_BACK.match(text[said.end() :])):
                yield from _names(_ENDS.split(said["what"])[-1 if verb_behind else 0])


def _names(what: str) -> Iterator[str]:
    yield from every_named(what)
    for token in _TOKEN.findall(what):
        name = canonical_name(distribution_of(token.replace("-", "_")))
        if name in BY_NAME or "-" in name:
            yield name


class Installed:
    """Collects them for one log."""

    def __init__(self) -> None:
        self.releases: dict[str, tuple[str, int]] = {}
        """What an installer put in or found there, with the line; what is said of it elsewhere goes before."""
        self.said: dict[str, int] = {}
        """All that is said to be there, and the line that says so first."""
        self.put_in: dict[str, int] = {}
        """What an installer put in while the log was written, and the line that says so first."""

    def see(self, text: str, number: int) -> None:
        """Reads one line."""
        if not any(map(text.__contains__, SIGNS)):
            return
        for name, version in installed_in(text):
            self.releases[name] = (version, number)
        for name in put_in(text):
            self.put_in.setdefault(name, number)
        for name in said_installed_in(text[:1000]) if len(self.said) < _MOST else ():
            self.said.setdefault(name, number)

    def told(self) -> Iterator[tuple[str, tuple[str, ...], int]]:
        """Facts with the first line that says each."""
        for name, lines in ((INSTALLED, self.said), (PUT_IN, self.put_in)):
            if lines:
                yield name, tuple(lines), min(lines.values())
