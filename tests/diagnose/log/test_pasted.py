"""A message torn from its log is still known: behind other words, in quotes, without its class, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.log.causes import explain, explain_text, words_of
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.pasted import unwrapped
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.diagnose.log.unmet import drop_unmet
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.build import build_family
from attn_doctor.recipes.loosened import loosened
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.recipes.shelf import bundled, families
from tests.diagnose.log.making import given, made

PATTERNS = Patterns(bundled())
_CLASS = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception): ")
#: Bare, these words are those of another recipe, or too few to go by: what split them was the class or a quote.
_SPLIT_BY_CLASS = {
    "flash-attn-not-installed",
    "flash-attn-extension-missing",
    "bf16-unsupported-device",
    "package-metadata-broken",
}

#: Without its class this is a name or a line of any program.
_TOLD_BY_CLASS = re.compile(
    r"KeyError: '|PackageNotFoundError: \w+$|AttributeError: torchaudio\.|AssertionError: q: "
    r"|ConversionError: Error when"
)


def _first(text: str, facts: FactSet, patterns: Patterns = PATTERNS) -> str | None:
    scanner = Scanner(patterns, given=words_of(facts))
    scanned = [scanner.scan("x", [text])]
    drop_unmet(scanned[0], facts)
    scanner.look_again(scanned)
    found = explain(scanned, facts).diagnosis.findings
    return found[0].id if found else None


def _known() -> list[tuple[str, FactSet]]:
    """Messages of one line that the shelf's own cases know, with what the cases say beside them."""
    return [
        (case.log.strip(), given(case))
        for recipe in bundled()
        for case in recipe.cases
        if case.log and case.expect == "finds" and "\n" not in case.log.strip() and recipe.id not in _SPLIT_BY_CLASS
    ]


def _bare(message: str) -> str:
    return message if _TOLD_BY_CLASS.search(message) else _CLASS.sub("", message, count=1)


FORMS: dict[str, Callable[[str], str]] = {
    "alone": _bare,
    "behind a logger": lambda text: f"ERROR trainer: {text}",
    "behind words": lambda text: f"training failed: {_bare(text)}",
    "behind hydra": lambda text: f"Error executing job with overrides: {_bare(text)}",
    "behind a step": lambda text: f"step 100 loss=2.1 {text}",
    "indented": lambda text: f"        {text}",
    "in backticks": lambda text: f"`{text}`",
    "fenced": lambda text: f"```\n{text}\n```",
    "in a sentence": lambda text: f"When I start it I get {text} and do not know why.",
    "quoted": lambda text: f'It says "{_bare(text)}", what now?',
    "in Chinese": lambda text: f"训练时报错：{text}，请问怎么解决？",
    "in German": lambda text: f"Beim Start kommt „{text}“, dann ist Schluss.",
    "in a list": lambda text: f"- {text}",
}


@for_all(st.sampled_from(_known()), st.sampled_from(sorted(FORMS)))
def test_a_form_changes_no_first_finding(message: tuple[str, FactSet], form: str) -> None:
    """Of every message that the shelf knows by itself."""
    text, facts = message
    first = _first(text, facts)

    assert first is None or _first(FORMS[form](text), facts) == first


@pytest.mark.heavy
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_form_changes_no_first_finding_at_all(form: str) -> None:
    """Each message in each form: the property above draws too few of them to hold every new pattern."""
    known = [(text, facts, _first(text, facts)) for text, facts in _known()]

    assert [text for text, facts, first in known if first and _first(FORMS[form](text), facts) != first] == []


@pytest.mark.parametrize("form", sorted(FORMS))
def test_one_of_each(form: str) -> None:
    """A kernel's refusal in each form."""
    text = "RuntimeError: FlashAttention only support fp16 and bf16 data type"

    assert _first(FORMS[form](text), FactSet()) == _first(text, FactSet())


@pytest.mark.parametrize(
    ("told", "first"),
    [
        ("The notebook says the mamba_ssm package isn't installed.", "package-not-installed"),
        ('it gives me the message " No module "xformers". Processing without it "', "xformers-not-installed"),
        ("consistent CUDA OOM errors on both RTX 4090 with torch", "gpu-out-of-memory"),
    ],
)
def test_what_is_told_of_a_message_is_that_message(told: str, first: str) -> None:
    """In a sentence of their own words, where the text knows nothing else."""
    found = explain_text(told, [*bundled(), *families()], FactSet()).diagnosis.findings

    assert [one.id for one in found][:1] == [first]
    assert found[0].locations[0].note in told  # as it was told, and not as it was read


@pytest.mark.parametrize(
    "told",
    [
        "torch isn't there yet",
        "the mask is not installed",
        "can't find my_own_file.py",
        "is flash_attn not used?",
        "flash_attn is not used",
    ],
)
def test_any_other_word_is_no_package(told: str) -> None:
    assert "No module" not in next(unwrapped([Line(1, told)])).text


def _of(**log: object) -> Recipe:
    return made("r", {"confirms": True, **log})


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ({"pattern": "no head of size"}, "no head of size"),
        ({"pattern": "no head of size", "kind": ["traceback", "message"]}, "we see no head of size 3"),
        ({"pattern": "^KeyError: 'some_long_name'$"}, "it ends in KeyError: some_long_name."),
        ({"pattern": "^KeyError: 'some_long_name'$"}, "it ends in `some_long_name`"),
        ({"pattern": r"no `\w+` of 'that' \[\"kind\"\]"}, "no x of that [kind]"),
    ],
)
def test_quotes_kind_and_place_are_left_aside_after_silence(log: dict[str, object], text: str) -> None:
    """Where no recipe knew anything of the text as it stands."""
    assert _first(text, FactSet(), Patterns([_of(**log)])) == "r"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("run conda create torch first", None),
        ("me@box:~$ conda create torch", None),
        ("run 'conda create torch' to have a board", None),
        ("run `conda create torch` first", "r"),
        ("no builder was found", "r"),
    ],
)
def test_few_words_keep_the_quote_before_them(text: str, first: str | None) -> None:
    """A command is a message's only in its quotes; an alternative that says enough needs none."""
    recipe = _of(pattern="no `builder` was found|`(?:pip|conda) create")

    assert _first(text, FactSet(), Patterns([recipe])) == first


def test_what_is_known_as_it_stands_is_not_looked_at_again() -> None:
    """The lenient look never adds to a strict one."""
    strict = made("strict", {"pattern": "no head"})
    lenient = made("lenient", {"pattern": "no 'head'"})

    assert _first("RuntimeError: no head", FactSet(), Patterns([strict, lenient])) == "strict"
    assert _first("RuntimeError: no head", FactSet(), Patterns([lenient])) == "lenient"


def test_families_are_looked_for_where_no_recipe_is_found() -> None:
    """A message without its class has its family; a recipe that is found leniently stands in its place."""
    family = build_family(
        {
            "id": "family", "title": "f", "about": "api", "checked": "2026-11-22", "what": "w", "case": [],
            "check": [{"text": "look"}], "log": [{"pattern": "TypeError: no 'head' of this size"}],
        },
        library="tests", origin="a test", file=Path("none"), sha256="0",
    )  # fmt: skip
    recipe = _of(pattern="^no 'head'")

    assert _first("we see no head of this size", FactSet(), Patterns([family])) == "family"
    assert _first("we see no head of this size", FactSet(), Patterns([family, recipe])) == "r"


def test_a_compiler_s_name_may_be_left_out() -> None:
    """What it says is enough."""
    patterns = Patterns([_of(pattern=r"ptxas(?:-blackwell)? fatal ?: Value 'sm_\w+' is not defined")])

    assert _first("it dies of “Value 'sm_999' is not defined”", FactSet(), patterns) == "r"


def test_a_large_log_is_no_paste() -> None:
    """It is looked through once."""
    lines = "".join(f"step {number} loss 2.1\n" for number in range(5000))

    assert _first(lines + "a no head of size\n", FactSet(), Patterns([_of(pattern="^no head of size")])) is None


def test_what_somebody_assumes_stands_close_by() -> None:
    """A version that is named counts as if the log had it."""
    patterns = Patterns([_of(pattern="no head of size", nearby=r"flash_attn 2\.7")])

    assert _first("no head of size", FactSet(), patterns) is None
    assert _first("no head of size", assume(FactSet(), ["package.flash-attn.version=2.7.4"]), patterns) == "r"


def test_every_pattern_can_be_loosened() -> None:
    """What comes of it is an expression, and still finds what it found."""
    for recipe in bundled():
        for log in recipe.logs:
            re.compile(loosened(log.pattern), re.MULTILINE)


@pytest.mark.parametrize("dots", ["…", "..."])
def test_a_title_that_a_website_broke_is_one_line_again(dots: str) -> None:
    """Pull requests show a long title with an ellipsis, and its rest on top of their text."""
    text = (
        f"fix TypeError: MyTrainer.compute_loss() got an unexpected{dots}\n{dots} keyword argument 'num_items_in_batch'"
    )
    assert _first(text, FactSet()) == "model-code-of-older-transformers"


def test_a_symbol_on_the_line_below_is_read() -> None:
    """A person broke the line before the name that it announces, narrow as it is."""
    told = "ImportError: /e/vllm/_C.abi3.so: undefined symbol:\n    _ZN3c1013MessageLoggerC1ENS_14SourceLocationEib"

    assert _first(told, FactSet()) == "extension-built-for-other-torch"


def test_underscores_that_markdown_took_are_there_again() -> None:
    text = "TypeError: Seq2SeqTrainingArguments.init() got an unexpected keyword argument ‘evaluation_strategy’"
    assert _first(text, FactSet()) == "name-of-another-release"


def test_an_import_as_people_tell_of_it() -> None:
    text = 'the training fails, it cannot import "_compare_version" from "torchmetrics.utilities.imports".'
    assert _first(text, FactSet()) == "lightning-of-another-time"


def test_what_must_not_follow_a_quote_is_asked_behind_it() -> None:
    """A quote that stands there is not passed over: what follows it would be the quote itself."""
    expression = re.compile(loosened(r"cannot import name '\w+' from 'mamba_ssm'(?! \(unknown location)"))
    assert not expression.search("cannot import name 'Mamba' from 'mamba_ssm' (unknown location)")
    assert not expression.search("cannot import name Mamba from `mamba_ssm` (unknown location)")
    assert expression.search("cannot import name 'Mamba' from 'mamba_ssm' (/e/mamba_ssm/__init__.py)")
    assert expression.search("cannot import name Mamba from mamba_ssm")
