"""Reads what a message itself tells its reader to do, and puts it first: for a family, and where it names a switch."""

from __future__ import annotations

from itertools import takewhile

from attn_doctor.diagnose.log.done import IN_PYTHON, settings_done, settings_named
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Safety
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.recipe import Question, Recipe, RecipeRemedy

_ADVICE = FactName.parse("log.advice")
_AS_IT_SAYS = RecipeRemedy(
    id="as-the-message-says",
    title="The message itself says what to try: {log.advice}",
    safety=Safety.UNSAFE,  # a step, though nobody here knows what it changes
    why_this_safety="",
    actions=(),
    when=(),
)
#: Where it says for whom: who does not want that part has another way out, and the message is no order.
_AS_A_CHOICE = replace(
    _AS_IT_SAYS,
    title=_AS_IT_SAYS.title
    + "; who does not want that part leaves it out instead (an option of its own: load_...=False, use_...=False)",
)
_IF_WANTED = when_used(r"\b(?:if|when) you(?: really)? (?:want|wish|need|like|prefer|would like|intend|plan)\b")
#: Where the log's code sets that very variable.
_TOO_LATE = replace(
    _AS_IT_SAYS,
    title="Set it in the shell, before Python starts, as the message says: {log.advice}. The code in the log sets it "
    "itself, which is too late where the package was imported before",
)
#: What a message tells its reader to do, in a sentence or clause of its own.
_TOLD = when_used(
    r"(?:^|[.;:!,?(]\s+|\n\s*)(?P<advice>(?:(?:(?:[Pp]lease|[Tt]ry|[Cc]onsider|[Ee]ither|or"
    r"|[Yy]ou (?:can|could|should|may|must|need to))(?: also| try| consider| to| either)?,? )"
    r"(?:us(?:e|ing)|set(?:ting)?|pass(?:ing)?|export|switch(?:ing)? to|disabl(?:e|ing)|turn(?:ing)? o(?:n|ff)|change"
    r"|launch(?:ing)?|enabl(?:e|ing)|increas(?:e|ing)|reduc(?:e|ing)|decreas(?:e|ing)|lower(?:ing)?|specify(?:ing)?"
    r"|load(?:ing)?(?= (?:your|the|this|a) model (?:with|in|using) ))"
    r"|[Uu]se|[Ss]et|[Pp]ass|[Ee]xport|[Ss]witch to|[Dd]isable|[Tt]urn o(?:n|ff)|[Ee]nable"
    r"|[Ii]ncrease|[Rr]educe|[Ll]ower)"
    r" [^\n]{4,200}?)(?=(?<!e\.g)(?<!i\.e)[.;!](?:\s|$)|[)]?\s*(?:\n|$)|, otherwise|, or report)"
)
#: It names a setting: a flag, a variable, a value or a word in quotes.
_SETTING = when_used(r"[`'\"][\w-]{2,}|--?\w{3,}|\w=\S|\b[A-Z]{3,}_[A-Z_]+\b|\w\.\w+\(")
#: What only shows more of an error, installs something, trusts somebody's code, reports, or silences a check.
_NO_CURE = when_used(
    r"VERBOSE|DEBUG|LOGS?\b|_LOG_?[A-Z]|\b[Ll]ogging\b"
    r"|BLOCKING|DSA\b|DETAILS|BACKTRACE|TRACE|anomaly|faulthandler|log ?level|--help"
    r"|FULL_ERROR|(?:stack ?|full )(?:trace|error)|traceback"
    r"|install|pip |conda |setup\.py|python -m|trust_remote_code|weights_only|token|login"
    r"|BACKEND_AUTOLOAD|vram|report|issue|https?:|deprecat|instead of .{0,40}in v\d"
    r"|the model as it is"
    r"|^[Tt]ry setting VLLM_USE_V1=0$"  # said of a model that neither engine has
    r"|to (?:disable|suppress|skip|ignore|silence|hide|bypass) (?:this|the|that|these) \w"
)


#: An entry of a numbered list: guesses for whatever may be the cause, printed with every error.
_OF_A_LIST = when_used(r"(?:^|\n)[ \t]*\d$")


#: A variable or a flag: the program knows its own switches better than a recipe for all of them. What begins with
#: export was typed by the writer of the log.
_SWITCH = when_used(r"^(?!export )[^\n]*?(?:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+ ?=|(?<![\w-])--[a-z][a-z0-9-]{3,})")
#: How much of something, of which a recipe knows more.
_AMOUNT = when_used(r"(?i)(?:\w+ ){0,3}(?:reduc|increas|decreas|lower)\w* ")
_FLAG = when_used(r"(?<![\w-])--[a-z][a-z0-9-]{2,}")


def advice_in(message: str) -> str | None:
    """What the message itself tells its reader to set or to take in place; None where it tells nothing of the kind."""
    for found in _TOLD.finditer(message[:3000]):
        advice = " ".join(found["advice"].split())
        if _OF_A_LIST.search(message, 0, found.start()):
            continue
        if _SETTING.search(advice) and not _NO_CURE.search(advice):
            return advice
    return None


def with_its_own_words(recipe: Recipe, facts: FactSet) -> Recipe:
    """What the message itself says to do comes first: it knows the case, and a family does not; of a recipe's texts
    only those are better that know more than its switch. A remedy that begins a recipe and hangs on the GPU that is
    there stays before it: a message speaks to every GPU.
    """
    advice = facts.value(_ADVICE)
    family = recipe.family
    knows_less = _SWITCH.search(str(advice)) if family is None else family.ours or not recipe.has_words_of_its_own
    if advice is None or not knows_less:
        return recipe
    if family is None and (_AMOUNT.match(str(advice)) or _has_its_switch(recipe, str(advice))):
        return recipe
    if _begins_with_it(recipe, str(advice)):
        return recipe
    of_the_gpu = tuple(takewhile(_hangs_on_the_gpu, recipe.remedies))
    as_it_says = _AS_A_CHOICE if _IF_WANTED.search(str(advice)) else _AS_IT_SAYS
    in_code = {one.removeprefix(IN_PYTHON) for one in settings_done(facts) if one.startswith(IN_PYTHON)}
    if in_code & set(settings_named(str(advice))):
        as_it_says = _TOO_LATE
    return replace(recipe, remedies=(*of_the_gpu, as_it_says, *recipe.remedies[len(of_the_gpu) :]))


def _has_its_switch(recipe: Recipe, advice: str) -> bool:
    """True where a remedy names the flag that a message has for a command line: the remedy knows Python's name, too."""
    if "CLI" not in advice:
        return False
    flags = _FLAG.findall(advice)
    return bool(flags) and any(all(flag in one.title for flag in flags) for one in recipe.remedies)


def _begins_with_it(recipe: Recipe, advice: str) -> bool:
    """True where a family's first step without a condition sets the same, in a sentence that says when."""
    named = set(settings_named(advice))
    steps = (one for one in recipe.remedies if recipe.family and not one.only_with_facts)
    first = next(steps, None)
    return bool(named and first and named <= set(settings_named(first.title)))


def _hangs_on_the_gpu(remedy: RecipeRemedy) -> bool:
    asked = [one.fact for one in remedy.when if isinstance(one, Question)]
    return remedy.only_with_facts and any(name.kind == "gpu" for name in asked)
