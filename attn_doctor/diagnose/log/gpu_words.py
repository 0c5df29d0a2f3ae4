"""How people and programs name a GPU, and its compute capability."""

from __future__ import annotations

import re
from collections.abc import Callable

from attn_doctor.diagnose.log.hearsay import is_of_others
from attn_doctor.quick_patterns import when_used

CAPABILITY = when_used(
    r"(?:CUDA|cuda|[Cc]ompute|[Dd]evice) [Cc]apability:?(?: of)? ?"
    r"(?:sm_?(?P<sm>\d{1,2})(?P<minor>\d)[af]?\b|(?P<dotted>\d{1,2}\.\d)\b)"
    r"|(?:[Yy]our GPU has|[Dd]evice|[Cc]ompute)[ _]?[Cc]?apability[:=]? ?"
    r"\((?:major=)?(?P<a>\d{1,2}), ?(?:minor=)?(?P<b>\d)\)"
    r"|(?:[Cc]urrent (?:compute ?)?|device_)capability(?: is)? ?[:=]? ?(?P<now>\d{1,2})(?P<now_minor>\d)\b"  # vLLM's
    r"|Value 'sm_(?P<ptxas>\d{1,2})(?P<last>\d)[af]?' is not defined for option 'gpu-name'"
    r"|Unsupported CUDA architecture: sm_?(?P<refused>\d{1,2})(?P<refused_minor>\d)\b"  # SageAttention's
    r"|Compiling entry function '\w{1,200}' for 'sm_(?P<compiled>\d{1,2})(?P<compiled_minor>\d)[af]?'"
    r"|'--gpu-name=sm_(?P<assembled>\d{1,2})(?P<assembled_minor>\d)[af]?'"  # Triton's call of ptxas
    r"|ptxas(?:\.exe)? -lineinfo -v --gpu-name=sm_(?P<repeated>\d{1,2})(?P<repeated_minor>\d)[af]?\b"
    r"|^\s{0,4}(?:- )?Compute capability: (?P<joined>[5-9]|1[0-2])(?P<joined_minor>\d)$"  # SGLang's kernels, 86 for 8.6
    r"|CUDA = (?P<banner>\d{1,2}\.\d)\. CUDA Toolkit"  # unsloth's banner
)
#: A capability that is required is not the one that is present.
ASKED = when_used(r"(?:least|minimum|require[sd]?|needs?|only|>=|than|from|up to|supports?|[<>]=?)[^.;,]{0,60}$")
#: A GPU on which it works, as people say it: not the one that the log is of.
_WORKS_THERE = when_used(
    r"(?i:(?<!not )(?<!n't )(?<!no longer )\b"
    r"(?:works?|working|worked|succeeds?|succeeded|no (?:problems?|issues?|errors?)"
    r"|(?:is|are|was|were|runs?|ran|trains?|trained) (?:fine|ok(?:ay)?|well))"
    r"(?: (?:fine|well|ok(?:ay)?|perfectly|as expected|without \w{3,12}))? (?:on|with|for)"
    r" (?:(?:an?|the|my|our|other|another|all|every|one|two|\d ?[x×*]?|nvidia|geforce|tesla|quadro|[rg]tx) ){0,4}"
    r"(?:[rg]tx ?)?(?:[ahlvptb]\d{1,3}s?|\d{4}(?: ?ti)?(?: super)?)\b)",
    re.ASCII,
)
_OR_MORE = when_used(r" or (?:higher|newer|later|above|greater|better)\b|\+")
#: What kernels say of the GPUs that they ask for; a sentence around it may name the one that is there.
OF_A_KERNEL = when_used(
    r"(?:[Ff]lash[-_ ]?(?:[Aa]ttention|[Aa]ttn)(?:[- ]?[23])?|FA[23])[^.\n]{0,12}"
    r" (?:only supports?|requires?|needs?)[^.\n]{0,12}"
    r" Ampere(?: or newer)? GPUs?(?: or newer)?|[Rr]equires Ampere GPUs or newer"
)
#: `RTX 50 series`, `30 series GPU`: all of one have the same compute capability. What is said for them is none of it.
_SERIES = (
    r"(?<![A-Za-z0-9_.-])(?<!for )(?<!Quadro )(?:[Rr][Tt][Xx] ?[2-5]0(?:00)?[- ]?[Ss]eries\b"
    r"|(?<!RX )(?<!Radeon )[2-5]0[- ][Ss]eries(?= (?:NVIDIA |RTX )?(?:GPUs?|gpus?|cards?)\b)|[2-5]0系(?!统))"
)
ASKED_BEHIND = when_used(
    r"\d{2,4}(?:xx)?(?:[- ]?[Ss]eries)?(?: GPUs?)?"
    r"(?:\+| (?:only|or (?:newer|later|better|above|higher)|(?:is|are) (?:required|needed|recommended)))"
)
NAMES = when_used(
    r"\b[Nn][Vv][Ii][Dd][Ii][Aa] |NVIDIA|\b[Gg]e[Ff]orce\b|[Tt]esla|[Qq]uadro"
    r"|\b[Rr][Tt][Xx] ?\d|\bRTX PRO|\d ?x ?RTX|\bDGX [Ss]park\b|\bGB10\b"
    r"|\b[Gg][Tt][Xx] ?\d{3,4}|\b(?:TITAN|Titan|titan) ?(?:[Xx][Pp]?|[Vv]|RTX|rtx)\b"
    # As people state what they have: `GPU: V100`, `on a T4`, `8*A100`; a name alone may be what is required.
    r"|(?:GPUs?|gpus?|显卡|[Gg]raphics card)(?: ?(?:type|name|model|型号|info))? ?[:：=] ?\S"
    r"|\b(?:[Oo]n|with|using|have|my) (?:an? |the |my |our |one |single |\d ?[x×*]? ?){0,2}(?:old |older |new |newer )?"
    r"(?:[AHLVPBT]\d{1,3}|[ahv][18]00|GTX)\b"
    r"|(?:[Cc]oll?ab(?:oratory)?|[Kk]aggle)(?:'s)?[ ,(]{1,3}(?:with |on |free )?(?=(?:T4|L4|A100|P100)\b)"
    r"|\b(?:T4|L4|P100) (?:runtime|(?:google )?colab|GPU)\b"
    r"|(?<![\w.-])(?:[Vv]100|T4|P40)s?(?= (?:is|are) (?:not|un)| (?:GPUs?|cards?|users?|machines?|servers?)\b)"
    r"|[使用在是张块卡] ?(?:\d{1,2} ?[张块卡x×*] ?)?[AHLVPBT]\d{2,3}\b"
    r"|(?<![\w.-])(?:[AHVahv]100|[HB]200|A[34]0|L40S?|P[14]00?|T4) ?[x×*] ?(?:[1-9]|1[0-6])\b(?![.,]\d)"
    r"|(?<![\w.-])[AHVP]\d{2,3}-(?:SXM\d|PCI[Ee]|DGXS)\b"
    r"|\d ?[x×] ?(?:[AHLVPB]\d{2,3}|[TL]4)\b|(?<![=+*/] )(?<![=+*/])\d ?\* ?(?:[AHLVPB]\d{2,3}|[TL]4)\b(?! ?[-+*/=])"
    r"|^\s*(?:[AHV]\d{2,3}S?|T4|P40|L4|L40[Ss]?)\s*(?:$|,|\d{2,3} ?[Gg]B?\b)"
    r"|(?<![\w.,-])[1-9]\d? (?:NVIDIA )?(?:[AHV]100|[HB]200|[AH]800)s?"
    r"\b(?! ?(?:GPU[- ]?)?(?:days?|hours?|years?|[\d-]))"
    r"|(?:显卡|硬件)(?:是|为|用的?是?)? ?[2-5]0[5-9]0(?!\d)"
    r"|(?:在|用|单|张|块|卡) ?(?:[AHVavh][18]00|[PTpt]\d{1,3})(?![\w.-])"
    r"|(?<![\w.-])(?:[AHVahv][18]00|[PTpt]40?)(?= ?(?:上|显卡|机器|服务器|环境))"
    r"|(?<![\w.-])[2-5]0[5-9]0 ?(?:Ti|TI|ti|SUPER|Super)\b"
    r"|(?<![A-Za-z0-9_.-])[2-5]0[5-9]0 ?D? ?(?:显卡|GPUs?\b|gpus?\b|(?:graphics )?cards?\b)"
    r"|\b(?:on|with|using|have|my) (?:an? |the |my |one |single )[2-5]0[5-9]0\b"
    r"|(?<![\w.-])[1-8] ?[x×*] ?[2-5]0[5-9]0\b"
    rf"|{_SERIES}"
    r"|\b(?:run|ran|running|train|trained|training) (?:this|it|the|my)(?: \w{1,20}){0,3} on [2-5]0[5-9]0\b(?! ?[a-z])"
    r"|\b[Cc]ard(?: is(?: an?)?|[:：=]) ?(?:[2-5]0[5-9]0|16[356]0 ?S?)\b|(?<![\w.-])16[56]0 ?S\b",
    re.ASCII,
)
#: The number that stands for a GeForce where a line states its GPU: `GPU: 4090`.
NUMBER_ALONE = when_used(
    r"(?:GPUs?|gpus?|显卡|[Cc]ard)(?: ?(?:type|name|model|型号))?(?: ?[:：=]| is(?: an?)?) ?"
    r"(?P<number>[1-5]0[5-9]0)(?P<more> ?(?:Ti|ti|D|Super|SUPER)?)(?=[ ,;.，。)]?(?:$|[A-Z(，。*x×\d]))"
)
#: The place before such a number with what no other number has behind or before it.
TI_ALONE = when_used(
    r"(?<![A-Za-z0-9_.-])(?<![RGrg][Tt][Xx] )(?=[2-5]0[5-9]0 ?(?:Ti|TI|ti|SUPER|Super)\b"
    r"|[2-5]0[5-9]0 ?D? ?(?:显卡|GPUs?\b|gpus?\b|(?:graphics )?cards?\b))"
    r"|(?<=\d[x×*] )(?=[2-5]0[5-9]0\b)|(?<=\d[x×*])(?=[2-5]0[5-9]0\b)"
    r"|(?<=\bon )(?=[2-5]0[5-9]0\b)"
    r"|(?<=显卡)(?=[2-5]0[5-9]0(?!\d))|(?<=显卡 )(?=[2-5]0[5-9]0(?!\d))|(?<=硬件)(?=[2-5]0[5-9]0(?!\d))"
    r"|(?<=显卡是)(?=[2-5]0[5-9]0(?!\d))|(?<=显卡为)(?=[2-5]0[5-9]0(?!\d))"
    r"|(?<=\ba )(?=[2-5]0[5-9]0\b)|(?<=\bmy )(?=[2-5]0[5-9]0\b)|(?<=\bthe )(?=[2-5]0[5-9]0\b)"
)
SERIES = when_used(_SERIES)
#: `1660S`, as people write the GTX 1660 SUPER.
SUPER_IN_SHORT = when_used(r"(?<![\w.-])(?:GTX ?)?(?P<number>16[56]0) ?S\b")
#: `2xT4`, `T4x2`: how many there are, written without a blank.
_COUNTED = when_used(r"(?<=\b\d)(?=[x×*][ATHLVPB]\d)|(?<=\d[x×*])(?=[ATHLVPB]\d)|(?<=[TL]4)(?=[x×*] ?[1-8]\b)")
#: `GTX 4090`: GeForces of these numbers are RTX alone.
MEANT_RTX = when_used(r"\b[Gg][Tt][Xx](?= ?[2-5]0[5-9]0(?!\d))")


def is_asked(text: str, found: re.Match[str]) -> bool:
    """True where the capability that was found is one that is asked for: `8.9 or higher required`."""
    return bool(ASKED.search(text[: found.start() + 4]) or _OR_MORE.match(text, found.end()))


def is_a_default(named: str, text: str) -> bool:
    """True for what CMake compiles for where nobody names a GPU."""
    return named in ("3.0", "5.2") and "arch=compute_" in text


def of_a_series(found: re.Match[str]) -> str:
    """A series as the table of GPUs has it: RTX 50xx."""
    return f"RTX {re.findall('[2-5]0', found[0])[0]}xx"


def dotted(found: re.Match[str]) -> str:
    """The capability that was found, as 8.9."""
    return found["dotted"] or found["banner"] or ".".join(part for part in found.groups() if part)


def named_as_there(text: str, capability_of: Callable[[str], str | None]) -> str | None:
    """The compute capability of the GPU that a line says is there; None for one that it asks for, or on which it works.

    `capability_of` reads the table of GPUs: it answers for a text that names exactly one.
    """
    if not NAMES.search(text):  # most lines: nothing more is done for them
        return None
    text = _WORKS_THERE.sub(".", text)
    found = NAMES.search(text)
    if not found or is_of_others(text, found.start()):
        return None
    told = SERIES.sub(of_a_series, OF_A_KERNEL.sub(".", _COUNTED.sub(" ", text)))
    found = NAMES.search(told) or found
    with_brand = NUMBER_ALONE.sub(r"RTX \g<number>\g<more>", TI_ALONE.sub("RTX ", told))
    with_brand = SUPER_IN_SHORT.sub(r"GTX \g<number> SUPER", with_brand)
    named = capability_of(MEANT_RTX.sub("RTX", with_brand))
    stop = told.find(". ", found.end())  # the next sentence may be the message, which asks for another
    before, gpu, _ = told[: stop if stop >= 0 else None].partition(" GPU")
    if ASKED.search((before if gpu else told[: found.start()])[-60:]) or ASKED_BEHIND.search(told):
        return None
    return None if named and is_a_default(named, text) else named
