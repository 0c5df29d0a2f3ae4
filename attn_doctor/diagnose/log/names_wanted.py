"""Finds the releases of a package that have the Python name that a message misses."""

from __future__ import annotations

from collections.abc import Collection

from packaging.version import InvalidVersion, Version

from attn_doctor.diagnose.log.tried import LATEST, releases_tried
from attn_doctor.model.facts import FactSet
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data import names
from attn_doctor.recipes.data.names import Span

_Q = r"[`'\"\u2018\u2019]"
_IMPORTED = when_used(rf"cannot import name {_Q}(?P<name>\w+){_Q} from {_Q}?(?P<module>[A-Za-z]\w*(?:\.\w+)*)")
_MODULE = when_used(rf"No module named {_Q}?(?P<module>[A-Za-z]\w*(?:\.\w+)+)")
#: A line of code that imports a module, or names out of one.
_IMPORT = when_used(r"\b(?:import|from) (?P<module>[A-Za-z]\w*(?:\.\w+)+)(?: import \(?(?P<name>\w+))?")
_OF_MODULE = when_used(rf"[Mm]odule {_Q}?(?P<module>[A-Za-z][\w.]*){_Q}? has no attribute {_Q}? ?(?P<name>\w+)")
_MEMBER = when_used(
    rf"{_Q}?\b(?P<owner>[A-Z]\w+|torch\.[A-Z]\w+){_Q}?(?: object)? has no attribute {_Q}? ?(?P<name>\w+)"
)
_PARAMETER = when_used(rf"\b(?P<owner>\w+(?:\.\w+)*\(\)) got an unexpected keyword argument {_Q}?(?P<name>\w+)")
_MISSING = when_used(
    rf"\b(?P<owner>\w+(?:\.\w+)+\(\)) missing \d+ required (?:positional|keyword-only) arguments?: {_Q}(?P<name>\w+)"
)
#: What transformers says of a configuration whose model came later, and the look-up before it.
_MODEL_TYPE = when_used(rf"model type {_Q}?(?P<type>\w+){_Q}? but Transformers does not recognize")
#: What transformers says to code that registers a model under a type that it has itself by now.
_TYPE_TAKEN = when_used(rf"{_Q}(?P<type>[\w-]+){_Q} is already used by a Transformers config")
_KEY = when_used(rf"\bKeyError: {_Q}(?P<type>[a-z][\w-]+){_Q}(?!\w)")
#: The line of the look-up, after which any key is a model type.
_LOOKED_UP = when_used(
    r"\bCONFIG_MAPPING\[|models[/\\]auto[/\\]configuration_auto\.py\"?, line \d+, in (?:from_pretrained|__getitem__)"
)
#: Python 3.9 and older do not say of which class a constructor is.
_NAMELESS = when_used(r"(?<![\w.])__init__\(\)(?= (?:got an unexpected keyword|missing \d))")
_CALL_OF_CLASS = when_used(r"(?<![\w\"'])(?P<name>[A-Z]\w{2,60})\(")
#: Kinds of training in trl whose trainer holds the fields of its configuration under the same names.
_KINDS_OF_TRL = "SFT|DPO|KTO|ORPO|CPO|GRPO|RLOO|Reward|BCO|GKD"
#: Made from transformers' TrainingArguments.
_CONFIG_OF_TRL = when_used(rf"(?:{_KINDS_OF_TRL}|PPO|XPO|OnlineDPO|NashMD|PRM)Config\.__init__\(\)$")
#: Projects make trainers of their own from them: XGRPOTrainer.
_TRAINER_OF_TRL = when_used(rf"\w*?(?P<kind>{_KINDS_OF_TRL})(?:Trainer|Config)$")
#: Its Trainer is made by a function that hands arguments on.
_LIGHTNING = "pytorch_lightning"
#: Types that no other table is asked for: those with the number of a generation, and a few without.
_NO_WORD = when_used(r"(?:mistral|mixtral|pixtral|gemma|gpt_oss)$|[a-z]{2,}\d")
#: Attributes that only the class of the FlashAttention kernel had.
_OF_FLASH = when_used(r"_flash_attn_")
#: Lines of code name a package where they import it, or by the name in front of a dot; and the usual short ones.
_SPOKEN_OF = when_used(r"(?:(?<=\bimport )|(?<=\bfrom ))\w+|(?<![\w./\\-])\w+(?=\.[A-Za-z])")
_SHORT = {
    "np": "numpy", "pd": "pandas", "gr": "gradio", "nx": "networkx", "plt": "matplotlib", "jnp": "jax", "Image": "PIL",
    "A": "albumentations",
}  # fmt: skip
#: The module was asked while it was being imported, lies in no file, or is a file or folder beside the program that
#: hides the package: its names say nothing of its release.
_HALF = when_used(
    r"partially initialized|unknown location"
    rf"|from {_Q}(?P<name>\w+){_Q} \([^)\n]*[/\\](?:(?:custom_nodes|extensions|scripts|notebooks)[/\\](?P=name)"
    r"[/\\]__init__\.py|(?P=name)\.py)\)"
)


@dataclass(frozen=True, slots=True)
class NameWanted:
    """A Python name that a message misses, and the releases that have it."""

    name: str
    span: Span
    patched: bool = False
    """Whether the call comes from code that patches the package, although the frames are the package's own."""
    claimed: str | None = None
    """The release that the log names although it has the name: another one runs."""


def with_class(message: str, calls: str) -> str:
    """The message with the class of the constructor that it speaks of, taken from the innermost call of a class in the
    lines above it, where the message does not say it.
    """
    if not _NAMELESS.search(message):
        return message
    classes = [
        found["name"]
        for line in calls.splitlines()
        if not line.lstrip().startswith("File ")
        for found in _CALL_OF_CLASS.finditer(line)
    ]
    return _NAMELESS.sub(f"{classes[-1]}.__init__()", message, count=1) if classes else message


def name_wanted(message: str, owners: Collection[str], facts: FactSet, calls: str = "") -> NameWanted | None:
    """The name that a message misses; None where the table of names tells nothing of it.

    `owners`: import names of the packages whose files the message's frames name.
    `calls`: the lines of code between them.
    """
    if owners == [] and (lightning := _lightning_in(facts)):
        # Python 3.9 and older name no class, and what Lightning's users construct is its Trainer.
        message, owners = _NAMELESS.sub("Trainer.__init__()", message), [lightning]
    found = None if _HALF.search(message) else _found(message, owners, calls)
    if found is None:
        return None
    there = facts.text(f"package.{found.span.distribution}.version")
    if there is not None:
        found = _beside(found, there)
    return found if found.claimed else replace(found, claimed=_tried(found.span, facts))


def _tried(span: Span, facts: FactSet) -> str | None:
    """A release with the name that the log says was put in; None where there is none."""
    for release in releases_tried(span.distribution, facts):
        if span.until is None if release == LATEST else _has(span, release):
            return release
    return None


def _lightning_in(facts: FactSet) -> str | None:
    """The import name of Lightning, where the log names its release."""
    names_of_lightning = ("pytorch-lightning", "lightning")
    there = (one for one in names_of_lightning if facts.text(f"package.{one}.version") is not None)
    return next((one.replace("-", "_") for one in there), None)


def _beside(found: NameWanted, release: str) -> NameWanted:
    """The name, beside the release that the log names: one from before the table begins lacks it, since it is missed;
    one that has it is not the one that runs.
    """
    span = found.span
    try:
        too_old = span.since is None and Version(release) < Version(span.oldest)
    except InvalidVersion:
        return found
    if too_old:
        major, minor = Version(span.oldest).release[:2]
        return replace(found, span=replace(span, since=f"{major}.{minor}"))
    return replace(found, claimed=release) if _has(span, release) else found


def _found(message: str, owners: Collection[str], calls: str) -> NameWanted | None:
    for pattern in (_IMPORTED, _OF_MODULE):
        if (match := pattern.search(message)) and (span := names.of_name(match["module"], match["name"])):
            return NameWanted(match["name"], span)
    if (match := _IMPORTED.search(message)) and (span := names.dropped_at_the_top(match["module"], match["name"])):
        return NameWanted(match["name"], span)
    if found := _model_type(message, owners, calls):
        return found
    if match := _MODULE.search(message):
        return _module(match["module"], calls)
    if match := _MISSING.search(message):
        span = names.of_member(match["owner"], match["name"], (*owners, *_spoken_of(calls)))
        without = None if span is None else span.others
        return None if without is None else NameWanted(f"{match['owner']} without {match['name']}", without)
    for pattern, spelled in ((_MEMBER, "{owner}.{name}"), (_PARAMETER, "{name} of {owner}")):
        match = pattern.search(message)
        among = (*owners, *_spoken_of(calls))
        if match and (span := names.of_member(match["owner"].removeprefix("torch."), match["name"], among)):
            return NameWanted(spelled.format_map(match.groupdict()), span)
    if (match := _PARAMETER.search(message)) and (found := _of_a_base(match["owner"], match["name"], owners)):
        return found
    if (match := _MEMBER.search(message)) and (span := names.inherited(match["owner"], match["name"], owners)):
        return NameWanted(f"{match['owner']}.{match['name']}", span)
    if match and (kind := _TRAINER_OF_TRL.match(match["owner"])):
        owner = f"{kind['kind']}Config.__init__()"
        span = names.of_member(owner, match["name"], ("trl",))
        return NameWanted(f"{match['name']} of {owner}", span) if span else None
    if match and _OF_FLASH.match(match["name"]) and (span := names.of_kernel_class(match["owner"])):
        return NameWanted(f"{match['owner']}.{match['name']}", span, patched=True)
    return None


def _module(missed: str, calls: str) -> NameWanted | None:
    """The module that is missed; or what the last import in the lines of code wants within it, where the table knows
    that: Python says of `import a.b.c` that it misses `a.b`.
    """
    for found in reversed([*_IMPORT.finditer(calls)]):
        if found["module"] == missed and found["name"] and (span := names.of_name(missed, found["name"])):
            return NameWanted(f"{missed}.{found['name']}", span)
        if found["module"].startswith(f"{missed}.") and (span := names.of_module(found["module"], itself=True)):
            return NameWanted(found["module"], span)
    span = names.of_module(missed, itself=True)
    return None if span is None else NameWanted(missed, span)


def _spoken_of(calls: str) -> set[str]:
    """The import names that lines of code speak of."""
    return {_SHORT.get(found[0], found[0]) for found in _SPOKEN_OF.finditer(calls)}


def _of_a_base(owner: str, parameter: str, owners: Collection[str]) -> NameWanted | None:
    """The parameter of a class that is made from one of transformers' and hands on what it is given. Python 3.9 and
    older name no class, and then only the arguments of training are asked for, and where a file of Lightning is named
    those of its Trainer.
    """
    if owner == "__init__()" and _LIGHTNING in owners:
        span = names.of_member("Trainer.__init__()", parameter, (_LIGHTNING,))
        return NameWanted(f"{parameter} of Trainer.__init__()", span) if span else None
    if _CONFIG_OF_TRL.match(owner):
        span = names.of_member("TrainingArguments.__init__()", parameter, owners)
        return NameWanted(f"{parameter} of TrainingArguments.__init__()", span) if span else None
    for base in ("TrainingArguments", "Trainer"):
        if owner.endswith(f"{base}.__init__()") or (owner == "__init__()" and base == "TrainingArguments"):
            span = names.of_member(f"{base}.__init__()", parameter, owners)
            return NameWanted(f"{parameter} of {base}.__init__()", span) if span else None
    return None


def _model_type(message: str, owners: Collection[str], calls: str) -> NameWanted | None:
    """The type of a model, as its configuration calls it: each has a package of its own in transformers."""
    if match := _TYPE_TAKEN.search(message):
        span = names.of_name("transformers.models", match["type"].replace("-", "_"))
        without = None if span is None else span.others
        return None if without is None else NameWanted(f"the free model type {match['type']}", without)
    match = _MODEL_TYPE.search(message)
    if match is None:
        match = _KEY.search(message)
        of_transformers = not owners or "transformers" in owners
        if match is None or not (_is_looked_up(calls) or (of_transformers and _NO_WORD.match(match["type"]))):
            return None
    span = _with_the_type(match["type"])
    return None if span is None else NameWanted(f"model type {match['type']}", span)


def _with_the_type(model_type: str) -> Span | None:
    return names.of_name("transformers.models", model_type.replace("-", "_").removesuffix("_text"))


def _is_looked_up(calls: str) -> bool:
    """Whether the innermost frame looks a model's type up: a model's own code, called by it, has keys of its own."""
    *_, innermost = calls.rpartition('File "')
    return _LOOKED_UP.search(innermost) is not None


def type_of_no_release(message: str, calls: str) -> str | None:
    """The type of a model that a message misses, where no transformers of the table has such a model."""
    may_be_a_type = _is_looked_up(calls) or 'File "' not in calls  # of a cut one its recipe has seen the look-up nearby
    match = _MODEL_TYPE.search(message) or (_KEY.search(message) if may_be_a_type else None)
    return None if match is None or _with_the_type(match["type"]) else match["type"]


def _has(span: Span, release: str) -> bool:
    """Whether this release has the name; False for what is no version, and for a pre-release of the one that brought
    the name or dropped it.
    """
    try:
        version = Version(release)
    except InvalidVersion:
        return False
    return (span.since is None or Version(span.since) <= version) and (
        span.until is None or Version(version.base_version) < Version(span.until)
    )
