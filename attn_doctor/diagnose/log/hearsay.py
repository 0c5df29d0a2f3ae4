"""Tells what a log's writer has and did from what he denies, asks or says of others: `I have not tried it`, `has
anyone tried`, `the authors trained with 8 A100s`.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

_CLAUSE = r"[^.,;:!?\n。，；：！？]"
_SAME_CLAUSE = rf"(?:(?!\b(?:and|but|although|even|after)\b){_CLAUSE})"
_DENIED = when_used(
    r"(?i:\b(?:not|never|nobody|no|none|nor|neither|anyone|anybody|someone|somebody|others|people|authors?|papers?"
    r"|docs?|documentation|they|he|she|without|instead of)\b|n['’]t\b)"
    rf"{_SAME_CLAUSE}{{0,40}}$|(?:没有?|未|不是|别人|作者|论文){_CLAUSE}{{0,20}}$"
)
#: Others did it: `the authors trained with`. What is theirs, and used here, is not: `I run the paper's code on`.
_OTHERS = when_used(
    r"(?i:\b(?:authors?|papers?|others|people|someone|somebody|they|he|she)\b(?!['’]s)(?: \w+){0,2}?"
    r" (?:trained|train|used?|uses|ran|runs?|has|have|had|tested|reports?|reported|pre-?trained)\b"
    r")"
    rf"(?:(?!\b(?:I|[Ww]e|[Mm]y|[Oo]ur|[Mm]e|us)\b){_CLAUSE}){{0,40}}$"
    rf"|(?:别人|作者|论文)(?!的)(?:(?!我){_CLAUSE}){{0,20}}$"
    r"|(?i:\bthe (?:paper|authors?)|\bpre-?trained(?: it| this)?(?: on| with| using)?) ?$"
)
_WORKS = when_used(
    r"(?i:(?<!not )(?<!n't )(?<!n’t )\b(?:works?|worked|working|succeeds?|succeeded|fine|ok(?:ay)?|well"
    r"|perfectly|correctly|no (?:problems?|issues?|errors?))\b)"
    rf"{_CLAUSE}{{0,40}}$"
)
#: `We do not run in Kubernetes`, `not on a Slurm cluster`.
_NOT_THERE = when_used(
    r"(?i:(?:\b(?:I|we)\b(?: \w{1,9})?(?: not|n['’]t) (?:run|use|work|have)|\bnot|\bno|\bwithout|\bnot us(?:ed|ing))"
    r"(?: (?:on|in|under|via|by|any|an?|the|part|of)){0,3} ?$)"
)
_CAME_FROM = when_used(
    rf"(?i:\b(?:ssh|remote(?:d|ly)?|log(?:ged|ging)? ?in(?:to)?|connect(?:ed|ing)?)\b"
    rf"{_CLAUSE}{{0,20}} from {_CLAUSE}{{0,12}}$"
    r"|\bfrom (?:my|an?|the) $)"
)


def is_denied(text: str, at: int) -> bool:
    """True where the words before this place deny it, ask for it or tell it of others."""
    return _DENIED.search(text[max(0, at - 60) : at]) is not None


def is_of_others(text: str, at: int) -> bool:
    """True where the words before this place tell it of a paper's authors or other people."""
    return _OTHERS.search(text[max(0, at - 100) : at]) is not None


def works_there(text: str, at: int) -> bool:
    """True where the words before this place say that it works: `Everything is ok in`, so it fails elsewhere."""
    return _WORKS.search(text[max(0, at - 80) : at]) is not None


def is_not_there(text: str, at: int) -> bool:
    """True where the words right before this place say that the program does not run in it."""
    return _NOT_THERE.search(text[max(0, at - 60) : at]) is not None


def came_from(text: str, at: int) -> bool:
    """True where the words before this place tell of the machine from which the log's one is used."""
    return _CAME_FROM.search(text[max(0, at - 60) : at]) is not None
