"""Reads which releases of packages a log's writer put in before, or beside, the failure: `upgraded transformers to the
latest version`, `tried flash-attn 2.5.8 and 2.6.3`. A remedy that asks for one of these again is of no use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.hearsay import is_denied
from attn_doctor.diagnose.log.subjects import every_named
from attn_doctor.diagnose.log.versions_said import VERSION
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.probe.packages.requirements import met
from attn_doctor.quick_patterns import when_used

#: The fact: `transformers 4.52.4`, `transformers latest`.
TRIED = "log.tried"
#: In the place of a release: the newest that there was.
LATEST = "latest"
#: Kept for one log.
_MOST = 20
#: Texts of which one stands in every line that is read.
SIGNS = (
    "pgrad",
    "ngrad",
    "nstalled ",
    "pdat",
    "up to date",
    "latest",
    "newest",
    "Tried",
    "tried",
    "Same ",
    "same ",
    "最新",
    "升级",
    "降级",
    "更新",
    "试",
)
_SENTENCE_ENDS = when_used(r"[.!?;](?=\s|$)|[。；！？]|(?<!\w)\b(?:but|However)\b|但是?(?=[^\w]|\S)")
#: Its writer did it, or says that it changed nothing.
_CLAIMED = when_used(
    r"\bup to date\b|\b(?:I|[Ww]e)(?:['’]ve|['’]m| have| had| am| are)?(?: also| even| already| just| then| now)* "
    r"(?:tried|upgraded|updated|downgraded|installed|reinstalled|switched|moved|went|use[ds]?|using|on|running|ran|changed)\b"
    r"|\b[Tt]ried\b|\b[Aa]lready (?:upgraded|updated|downgraded|tried|on|using|at|installed)\b"
    r"|\b[Ss]till\b(?! (?:waiting|looking|hoping|need|want))|\b[Ss]ame\b"
    r"|\b(?:[Aa]fter|[Dd]espite|[Ee]ven (?:after|with|on)) (?:\w+ing\b|the (?:latest|newest))"
    r"|^\W{0,4}(?:[Uu]pgraded|[Uu]pdated|[Dd]owngraded|[Uu]pgrading|[Uu]pdating|[Dd]owngrading)\b"
    r"|(?:已经?|试过|试了|都试|也试|我[也都已把]?|升级[到了后]|更新[到了后]|降级[到了后]|降到|还是|仍)"
)
#: What was done in vain: a denial before it is of what came of it.
_THOUGH = ("even ", "after ", "despite ")
#: It is asked for, asked, refused, or what helped.
_NOT_DONE = when_used(
    r"\?\s*$|\b(?:[Yy]ou|[Pp]lease|[Ss]hould|[Nn]eeds? to|[Mm]ust|[Ii]f|[Cc]annot|[Uu]nable|[Ww]ould|[Cc]ould|[Mm]ight"
    r"|[Rr]equires?|[Rr]ecommend\w*|[Ss]uggest\w*|[Aa]dvi[sc]e[sd]?|[Ww]ill|[Ff]ail(?:s|ed)? to|[Cc]an|[Bb]efore)\b"
    r"|\b(?:[Cc]an|[Ww]o|[Cc]ould)(?:n)?['’]t\b|\w(?:Error|Warning|Exception)\b|请|需要|建议|如果|应该|必须|无法升级|不能|怎么|如何|吗"
)
_HELPED = when_used(
    r"\b(?:[Ww]ork(?:s|ed)?|[Ff]ix(?:es|ed)?|[Ss]olve[sd]?|[Rr]esolve[sd]?|[Hh]elp(?:s|ed)|[Gg]one"
    r"|[Nn]o longer|[Gg]oes away)\b|解决了|好了|可以了|成功了"
)
_IN_VAIN = when_used(
    r"n['’]t\b|\b(?:not|nothing|none|neither|nor|never|still|same)\b|[没无未不]"
    r"|(?:no|without)(?: any)? (?:luck|success|change|help|effect|avail|difference|improvement)"
)
_RELEASE = rf"v?(?P<release>{VERSION}|\d{{1,3}}(?![\w.]))"
_NAME, _NAMES = r"[A-Za-z][A-Za-z0-9_-]{1,30}", r"[A-Za-z](?:(?! to )[A-Za-z0-9_, -]){1,60}?"
_TO = r"(?:back |down |up )?to (?:the |a )?(?:version |release )?"
_MOVED = r"(?:[Uu]pgrad|[Uu]pdat|[Dd]owngrad|[Ss]witch|[Mm]ov|[Cc]hang)(?:e|ed|ing)"
_ZH = r"(?:升级|更新|降级|降|换)"
#: What was put in, by a release,
_TO_A_RELEASE = (
    when_used(rf"\b{_MOVED} (?P<what>{_NAMES}) (?:from \S{{1,20}} )?{_TO}{_RELEASE}"),
    when_used(rf"{_ZH}了? ?(?P<what>{_NAME}) ?(?:到|至|为|成)了? ?{_RELEASE}"),
    when_used(rf"(?P<what>{_NAME}) ?(?:也|都|已经?)?{_ZH}(?:到|至|为|成)了? ?{_RELEASE}"),
)
#: several of them,
_RELEASES = when_used(
    r"\b(?:[Tt]ried(?: (?:with|using|on|installing|to (?:install|use)))?|(?:re)?installed"
    r"|[Ss]ame(?: \w{1,12}){0,2} (?:with|on|in|for|using)) (?:versions? )?"
    rf"(?P<what>{_NAME})(?: versions?)?(?: |==|=|: )"
    rf"(?P<all>v?{VERSION}(?:(?:, and |, or |, | and | or |/| & )(?:{_NAME}[ =]{{1,2}})?v?{VERSION}){{0,8}})"
)
#: or the newest.
_NEWEST = (
    when_used(rf"\b{_MOVED} (?P<what>{_NAMES}) {_TO}(?:[Ll]atest|[Nn]ewest|most recent)\b(?! commit)"),
    when_used(
        r"\b(?:[Ll]atest|[Nn]ewest|most recent)(?: stable| available| official)?(?: versions?| releases?| build)?"
        rf"(?: of)?(?: the)? (?P<what>{_NAMES})(?=$|[^A-Za-z0-9_, -]| (?:but|still|with|from|on|is|in|for|as|too)\b)"
    ),
    when_used(
        rf"(?P<what>{_NAMES}) (?:is|are)(?: all| both)?(?: already)?"
        r" (?:up to date|(?:at |on )?(?:the|its|their) latest)\b"
    ),
    when_used(
        rf"\b(?:[Uu]pgrad|[Uu]pdat)(?:ed|ing|e) (?P<what>(?!from\b){_NAMES})"
        r"(?=$|[.,;!](?: |$)| (?:and (?:I|it|still|then|now|got|get|tried|re\w+)|but|still|as|too|again|already"
        r"|which|then|didn|did|does|no)\b)"
    ),
    when_used(rf"(?:升级|更新)(?:了|过)? ?(?P<what>{_NAME}) ?(?:到|至|为)?(?:了)?最新"),
    when_used(rf"(?P<what>{_NAME}) ?(?:也|都|已经?)?(?:升级|更新|是|用的是|换)?(?:到|成)?(?:了)?最新"),
    when_used(rf"最新(?:版本?)?的? ?(?P<what>{_NAME})"),
)
_TYPED = when_used(r"\bpip3? install (?P<what>[^\n`;&|]{1,200})")
_WORD = when_used(r"[\"']?(?P<name>[A-Za-z][\w.-]{1,60}?)(?:\[[\w,-]{1,60}\])?(?:==(?P<release>[\w.+]{1,40}))?[\"']?")
_UPGRADES = when_used(r"(?<!\S)(?:-[A-Za-z]*U|--upgrade)(?!\S)")
#: With these an installer asks elsewhere than the release that it names.
_ELSEWHERE = when_used(r"git\+|(?<!\S)(?:--(?:extra-)?index-url|--find-links|-[fier]|--editable|--pre)(?!\S)")
_FACT = FactName.parse(TRIED)


def tried_in(text: str) -> Iterator[str]:
    """The distributions and releases that a line's writer says were put in: `transformers 4.52.4`."""
    begin = 0
    for end in [*(found.end() for found in _SENTENCE_ENDS.finditer(text)), len(text)]:
        sentence, begin = text[begin:end], end
        if not any(_is_claimed(sentence, one) for one in _CLAIMED.finditer(sentence)) or _NOT_DONE.search(sentence):
            continue
        if _HELPED.search(sentence) and not _IN_VAIN.search(sentence):
            continue
        yield from _moved(sentence)


def _is_claimed(sentence: str, found: re.Match[str]) -> bool:
    return found[0].lower().startswith(_THOUGH) or not is_denied(sentence, found.start())


def _moved(sentence: str) -> Iterator[str]:
    for pattern in _TO_A_RELEASE:
        for found in pattern.finditer(sentence):
            named = [*_names(found["what"], sentence[: found.start()])] or [_last_word(found["what"])]
            yield from (f"{name} {found['release']}" for name in named)
    for found in _RELEASES.finditer(sentence):
        names = [*_names(found["what"])] or [_last_word(found["what"])]
        if len(names) == 1:
            yield from (f"{names[0]} {one}" for one in re.findall(rf"(?<![\w.])v?({VERSION})", found["all"]))
    for found in _TYPED.finditer(sentence):
        if not _ELSEWHERE.search(found["what"]):
            newest = _UPGRADES.search(found["what"]) is not None
            for one in filter(None, map(_WORD.fullmatch, found["what"].split())):
                name = _known(one["name"])
                if name and (one["release"] or newest):
                    yield f"{name} {one['release'] or LATEST}"
    for pattern in _NEWEST:
        for found in pattern.finditer(sentence):
            yield from (f"{name} {LATEST}" for name in _names(found["what"], sentence[: found.start()]))


def _names(what: str, before: str = "") -> Iterator[str]:
    """The known distributions of these words; `it` is what was spoken of last."""
    if what in ("it", "them"):
        what = before
    if "-" in what and " " not in what:  # a distribution's whole name: triton-windows is no triton
        yield _known(what) or canonical_name(what)
        return
    named = every_named(what)
    yield from named
    for word in re.findall(r"[A-Za-z][\w-]{2,60}", what):
        name = _known(word)
        if name and name not in named:
            yield name


def _last_word(what: str) -> str:
    """Any distribution's name: only a remedy that asks for it asks for it here."""
    return canonical_name(what.split()[-1])


def _known(word: str) -> str:
    name = canonical_name(distribution_of(word.replace("-", "_")))
    return name if name in BY_NAME else ""


class Tried:
    """Collects them for one log."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def see(self, text: str, number: int) -> None:
        """Reads one line."""
        if len(self._lines) < _MOST and any(map(text.__contains__, SIGNS)):
            for one in tried_in(text[:1000]):
                self._lines.setdefault(one, number)

    def several(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Distributions of which more than one release was tried, with these: none of them is the one that is there."""
        releases: dict[str, set[str]] = {}
        for one in self._lines:
            name, _, release = one.partition(" ")
            releases.setdefault(name, set()).add(release)
        yield from ((name, frozenset(each)) for name, each in releases.items() if len(each - {LATEST}) > 1)

    def told(self) -> tuple[tuple[str, ...], int]:
        """The releases in the order of the log, and the line of the first; line 0 where there is none."""
        return tuple(self._lines), min(self._lines.values(), default=0)


def releases_tried(package: str, facts: FactSet) -> tuple[str, ...]:
    """The releases of a distribution that the log says were put in; `latest` for the newest that there was."""
    told = facts.value(_FACT)
    each = (str(one).partition(" ") for one in told) if isinstance(told, tuple) else ()
    return tuple(release for name, _, release in each if name == package)


def one_that_meets(package: str, specifier: str, facts: FactSet) -> str | None:
    """A release that was put in and is one of those that the specifier asks for; None where there is none, and where
    it asks for any. What was the newest release is not known: another may be out by now.
    """
    if not specifier:
        return None
    releases = (one for one in releases_tried(package, facts) if one != LATEST)
    return next((one for one in releases if met(specifier, re.sub(r"\+.*", "", one)) is True), None)
