"""The releases of a package that have a Python name, as read from its published files.

Data: recipes/names_by_release.json, made by bench/harvest_names.py. It lists only names that some of the releases that
were looked at have and others have not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import cache

from packaging.version import Version

from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.kept import bundled_folder

TABLE = "names_by_release.json"
#: Behind a package: its modules that later became something else of that name, as jax.config.
_MODULES = "./"
#: Minor releases of one time: transformers brings four a season.
_NEAR = 4

#: Classes of transformers' models, as they are named there and in code that inherits from them.
_MODEL_CLASS = when_used(
    r"(?:For(?:CausalLM|ConditionalGeneration|\w+Classification|QuestionAnswering|MaskedLM|PreTraining)|LMHeadModel"
    r"|PreTrainedModel|[a-z\d]Model)$"
)
#: What they inherit from.
#: Not GenerationMixin: 4.50 took it from PreTrainedModel's bases, which no row of the table tells.
_MODEL_BASES = ("PreTrainedModel", "ModuleUtilsMixin")
_OF_MASKS = when_used(r"^(?:get|invert|create)_\w+_mask$|^get_head_mask$|_head_mask_")
_TOKENIZER_CLASS = when_used(r"\wTokenizer(?:Fast)?$")
_TOKENIZER_BASES = ("PreTrainedTokenizerBase", "PreTrainedTokenizer", "PreTrainedTokenizerFast")
#: Until 4.52 a model had a class of its own for each kernel, and its `XAttention` was the eager one.
_ATTENTION_CLASS = when_used(r"\wAttention$")
_KERNEL_CLASS = "FlashAttention2"
#: Methods, which messages of Python 3.9 call without their class, and what each model has of its own.
_MANY_ALIKE = when_used(r"\.[A-Z]\w*\.\w+\(\)$|\.models\.")
#: A class of two words, or a function of two: `OneHotEncoder.__init__()`, `read_csv()`.
_IS_TELLING = when_used(r"^(?:[A-Z]\w*?[a-z\d][A-Z]|[A-Z]{2,}[a-z]|[a-z]+\w*_\w*\(\)$)")


@dataclass(frozen=True, slots=True)
class Span:
    """The releases of one distribution that have a name."""

    distribution: str
    since: str | None
    """The first that has it; None: already the oldest that was looked at."""
    until: str | None
    """The first that no longer has it; None: the newest that was looked at has it."""
    newest: str
    """The newest that was looked at."""
    oldest: str = "0"
    """The oldest that was looked at."""
    around: bool = False
    """Whether the package is none of attention's, and is listed for what its users call."""

    @property
    def others(self) -> Span | None:
        """The releases that do not have it; None where they lie on both sides of those, or there are none."""
        if (self.since is None) == (self.until is None):
            return None
        return replace(self, since=self.until, until=self.since)

    @property
    def range(self) -> str:
        """The releases that have it, as a specifier; first the one below which it has to be, where there is one: who
        reads on to the first comma only has not taken the newest.
        """
        return ",".join([f"<{self.until}"] * bool(self.until) + [f">={self.since}"] * bool(self.since))

    @property
    def specifier(self) -> str:
        """What an installer is asked for: from the release on that brought it, below the one that dropped it, and
        within the major release of that time, for which the code that asks was written.
        """
        major = (self.since or "0").partition(".")[0]
        if self.until is None and major != "0" and major != self.newest.partition(".")[0]:
            return f"{self.range},<{int(major) + 1}"
        return self.range

    @property
    def near(self) -> str:
        """The same, where another package asks: its first few minor releases. Packages go by pairs of one time, and
        much later releases drop what that package takes for granted.
        """
        if self.since is None or self.until is not None:
            return self.specifier
        major, minor = (*Version(self.since).release, 0)[:2]
        last = f"{major}.{minor + _NEAR}"
        if Version(last) > Version(self.newest):
            return self.specifier
        return f"{self.range},<{last}"


def of_name(module: str, name: str) -> Span | None:
    """The releases in which the module has the name; None where the table tells nothing of it."""
    package = module.partition(".")[0]
    return members(package).get(module, {}).get(name)


def dropped_at_the_top(module: str, name: str) -> Span | None:
    """The releases whose package exported the name at its top, where later ones dropped it; for a name of a module that
    the table knows and does not list with it, since it went and came again there. None for what every model has of
    its own.
    """
    package = module.partition(".")[0]
    if ".models." in module or module not in members(package):
        return None
    span = of_name(package, name)
    return span if span and span.until else None


def of_module(module: str, *, itself: bool = False) -> Span | None:
    """The releases that have the module; of one that the table does not list, those of the package that holds it.

    `itself`: not of what holds it: Python misses the outermost first, so what holds a missed module is there.
    """
    parts = module.split(".")
    for depth in reversed(range(1, len(parts))):
        holder = ".".join(parts[:depth])
        if found := of_name(f"{holder}{_MODULES}", parts[depth]) or of_name(holder, parts[depth]):
            return found
        if itself:
            return None
    return None


def of_member(owner: str, name: str, first_in: Collection[str]) -> Span | None:
    """The releases in which a class, as `LlamaConfig`, has an attribute, or in which a method or function, as
    `LlamaAttention.forward()` or `flex_attention()`, takes a parameter.

    `first_in`: the import names of packages that are looked at before all others. None where several things of that
    name differ; for a method without its class; and for a function of a model, since every model has its own, and the
    table lists only those that changed. Packages around attention come last, and among them a short name that anyone
    may have given, as `Client` or `resize()`, counts only where the package is one of `first_in`, or where what is
    missed is a longer one, as `concurrency_count`.
    """
    of_attention = [one for one in packages() if not _is_around(one)]
    others = [one for one in packages() if _is_around(one)] if _IS_TELLING.search(owner) or "_" in name else []
    found = (
        _of_member(among, owner, name)
        for among in ([one for one in packages() if one in first_in], of_attention, others)
    )
    return next(filter(None, found), None)


def inherited(owner: str, name: str, first_in: Collection[str]) -> Span | None:
    """The releases of transformers that give a model's or tokenizer's class a method, where the class itself has no
    row: one that inherits it, in a package or in a person's own code.

    `X…Model` counts only where a file of transformers is named in `first_in`, other libraries name theirs so as well;
    or for a method that makes a mask, which the others' models do not have.
    Of a tokenizer only what was dropped counts: what its base got later, many had by themselves.
    """
    if _TOKENIZER_CLASS.search(owner):
        dropped = (_of_member(["transformers"], base, name) for base in _TOKENIZER_BASES)
        return next((span for span in dropped if span and span.until), None)
    if not _MODEL_CLASS.search(owner):
        return None
    if owner.endswith("Model") and "transformers" not in first_in and not _OF_MASKS.search(name):
        return None
    found = (_of_member(["transformers"], base, name) for base in _MODEL_BASES)
    return next(filter(None, found), None)


def of_kernel_class(owner: str) -> Span | None:
    """The releases in which an attention class, as `LlamaAttention`, had one beside it for each kernel."""
    if not _ATTENTION_CLASS.search(owner):
        return None
    of_kernel = f"{owner.removesuffix('Attention')}{_KERNEL_CLASS}"
    tables = members("transformers").items()
    spans = {known[of_kernel] for where, known in tables if ".models." in where and of_kernel in known}
    return spans.pop() if len(spans) == 1 else None


def _of_member(among: Iterable[str], owner: str, name: str) -> Span | None:
    ending, is_function = f".{owner}", owner.endswith("()") and "." not in owner
    spans = {
        _while_it_moved(package, where, known[name])
        for package in among
        if package in _packages_with(ending)  # most are left folded
        for where, known in members(package).items()
        if name in known and where.endswith(ending) and not (is_function and _MANY_ALIKE.search(where))
    }
    span = spans.pop() if len(spans) == 1 else None
    return span if span and (span.since or span.until) else None


@cache
def _packages_with(ending: str) -> frozenset[str]:
    """The packages of which a class or function has a row whose key ends so."""
    found = set()
    for package, row in _table().items():
        groups = row["names"]
        assert isinstance(groups, list)
        if any(where.endswith(ending) for group in groups for where in group["in"]):
            found.add(package)
    return frozenset(found)


def _is_around(package: str) -> bool:
    return bool(_table()[package].get("around"))


def _while_it_moved(package: str, where: str, span: Span) -> Span:
    """The span of a member without its end, where the class only went on in another module at that time: what a message
    says lacks the member is the class, wherever it is.
    """
    module, _, owner = where.removesuffix("()").removesuffix(".__init__").rpartition(".")
    if span.until is None or not owner[:1].isupper():
        return span
    paths = {other.rpartition(".")[0] for other in members(package) if other.endswith(f".{owner}")} - {module}
    homes = [of_module(path) for path in paths]
    left = of_module(module)
    if left and left.until == span.until:
        moved = owner in _TOKENIZER_BASES or any(home is None or home.until is None for home in homes)
    else:  # the old module stays for who imports from it, and holds nothing of the class
        lived = [one.until for one in members(package)[where].values()]
        moved = all(end and Version(end) <= Version(span.until) for end in lived) and any(
            home and home.since == span.until and home.until is None for home in homes
        )
    return replace(span, until=None) if moved else span


@cache
def packages() -> tuple[str, ...]:
    """The import names of the packages in the table."""
    return tuple(_table())


@cache
def _table() -> dict[str, dict[str, object]]:
    read: dict[str, dict[str, dict[str, object]]] = json.loads((bundled_folder() / TABLE).read_text(encoding="utf-8"))
    return read["packages"]


@cache
def members(package: str) -> dict[str, dict[str, Span]]:
    """Module, class or function of a package -> its names -> their span."""
    written: dict[str, dict[str, Span]] = {}
    row = _table().get(package)
    if row is None:
        return written
    releases, groups = row["releases"], row["names"]
    assert isinstance(releases, list)
    assert isinstance(groups, list)
    for group in groups:
        # There it was split over two distributions, of which the table reads one: what seems to end is in the other.
        until = None if group["until"] == row.get("split_at", "") else group["until"]
        if until is None and group["since"] is None:
            continue  # each release has it, in one half or the other
        ends = str(releases[-1]), str(releases[0])
        span = Span(str(row["distribution"]), group["since"], until, *ends, around=_is_around(package))
        for where, names in group["in"].items():
            written.setdefault(where, {}).update(dict.fromkeys(names.split(), span))
    return written
