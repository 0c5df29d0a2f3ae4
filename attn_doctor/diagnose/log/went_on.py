"""What a program says when a fast way is closed to it and it takes another, or goes on without: no failure."""

from __future__ import annotations

from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.quick_patterns import when_used

#: Words of any message, also of an exception that was caught and printed.
_SAID = when_used(
    r"\b(?:[Pp]roceed|[Pp]rocess|[Cc]ontinu)ing without\b"
    r"|optimizations will not be enabled|\bError caught was: |\b[Jj]ust a warning\b"
    r"|(?<!\bcan )(?<!\bcould )\b(?:[Uu]sing|[Uu]se|[Tt]aking) [^\n.]{2,60} instead\b"
    r"|(?<!exception and )\b[Ff]all(?:s|ing)? ?back (?:to|on)\b|回退(?:到|至)"
    r"|\b(?:failed|not found|unavailable|not (?:available|installed)), using (?:default )?"
    r"(?:SDPA|sdpa|[Pp]y[Tt]orch|torch)\b"
    r"|^(?:INFO|WARNING)?[^\n]{0,60}\bCannot use \w[\w -]{2,40} backend\b"
)
#: What is computed with in place of the kernel that was meant.
_ANOTHER = (
    r"(?:(?:the )?(?:default|standard|native|naive|plain|vanilla|slow(?:er)?|normal|regular|built-?in|old) )?"
    r"(?:torch(?:'s)?|[Pp]y[Tt]orch(?:'s)?|SDPA|sdpa|scaled_dot_product_attention|eager|math|native|naive|manual"
    r"|attention|[Ff]lash[-_ ]?[Aa]tt\w*|FLASH_ATTN|TRITON\w*|[Tt]riton|xformers|XFORMERS|implementation|path)\b"
)
#: Words that say so where no exception is raised: the same in one would be advice, or the cause.
_SAID_PLAINLY = when_used(
    rf"(?:[,;:.(]|\b(?:so|and|will|we)) ?(?:[Uu]sing|[Uu]ses?|[Tt]aking) {_ANOTHER}"
    r"|\b(?:[Dd]efault(?:s|ing)?|[Rr]evert(?:s|ing|ed)?|[Ss]witch(?:es|ing|ed)?|fell|[Rr]oll(?:s|ing|ed)?)"
    rf" ?(?:back )?to {_ANOTHER}"
    rf"|\b{_ANOTHER}(?: \w{{2,20}}){{0,2}} (?:is|will be|are) used\b"
    rf"|\b[Ww]ill (?:only )?(?:run|use) (?:the )?{_ANOTHER}"
    r"|\b(?:[Dd]isabl(?:ing|es)|is set to [Ff]alse|(?<!Output )will be (?:disabled|skipped|ignored)"
    r"|(?:not be|not) enabled)\b"
    r"|\bconsider installing (?:it )?for better performance\b"
    r"|[;,.:] ?[\w -]{2,40}\bdisabled\b|[Ff]all(?:s|ing)?[- ]?back\b"
    r"|将使用|改用|已切换|切换(?:到|为|至)|已(?:自动)?禁用"
)
#: A person's sentence about a failure, which may name what is taken otherwise.
_FAILS = when_used(r"\b(?:fails|raises|crashes)\b|\b[A-Z]\w*(?:Error|Exception)\b")
#: A row of a table, in which somebody compares settings: no program said it.
_ROW = when_used(r"[^|\n]\|[^|\n]{1,80}\|\s*$")
#: Characters of the longest notice.
_LONGEST = 4000


def went_on(unit: Unit) -> bool:
    """Whether its message says that the program took something else, or goes on without."""
    message = unit.message[:_LONGEST]
    if unit.frames or (unit.kind is UnitKind.LINE and (_FAILS.search(message) or _ROW.search(message))):
        return False
    if _SAID.search(message):
        return True
    raised = bool(unit.exception) and unit.kind is not UnitKind.WARNING
    return not raised and _SAID_PLAINLY.search(message) is not None
