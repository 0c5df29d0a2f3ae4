"""Families: what stands in where no recipe knows a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attn_doctor.diagnose.cases import run_cases
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.errors import BrokenRecipe
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.recipes import shelf
from attn_doctor.recipes.build import build_family
from attn_doctor.recipes.recipe import Recipe
from tests.diagnose.log.making import made

FAMILIES = shelf.families()


def _family(id_: str, pattern: str, **more: Any) -> Recipe:
    log = {"pattern": pattern, **more.pop("log", {})}
    table = {
        "id": id_, "title": id_, "about": "backend", "checked": "2026-11-22", "what": "w", "log": [log], "case": [],
        "check": [{"text": "look", "command": "look --at {log.model}"}], **more,
    }  # fmt: skip
    return build_family(table, library="tests", origin="a test", file=Path("none"), sha256="0")


def _found(text: str, *recipes: Recipe) -> list[Finding]:
    return list(explain_text(text, recipes, FactSet()).diagnosis.findings)


def _ids(text: str, *recipes: Recipe) -> list[str]:
    return [one.id for one in _found(text, *recipes)]


def test_each_family_passes_its_own_cases() -> None:
    """The cases in each file of families pass."""
    faults = {family.id: [one.fault for one in run_cases(family) if one.fault] for family in FAMILIES}

    assert {id_: told for id_, told in faults.items() if told} == {}


def test_ids_are_nobody_elses() -> None:
    """A family is named as a recipe is."""
    ids = [one.id for one in (*shelf.bundled(), *FAMILIES)]

    assert len(set(ids)) == len(ids)


def test_a_family_is_a_note_that_quotes_the_line_and_says_what_to_look_at() -> None:
    """It gates nothing, and is no cause."""
    (finding,) = _found("ValueError: no backend here", _family("f", "no backend"))

    assert finding.family
    assert (finding.severity, finding.certainty) == (Severity.INFO, "inferred")
    assert finding.locations[0].note == "ValueError: no backend here"
    assert [one.title for one in finding.remedies] == ["look"]


def test_the_exact_recipe_stands_in_its_place() -> None:
    """In the same message always; elsewhere in the log where it is an error."""
    family = _family("f", "no backend")

    assert _ids("ValueError: no backend here", family, made("exact", {"pattern": "backend here"})) == ["exact"]
    both = "ValueError: no backend here\n\nRuntimeError: worse"
    assert _ids(both, family, made("exact", {"pattern": "worse"})) == ["exact"]
    assert _ids(both, family, made("note", {"pattern": "worse"}, severity="info")) == ["note", "f"]


def test_what_only_wraps_gives_way_to_a_family() -> None:
    """`a build failed` says less than what failed in it."""
    text = "x.cu:3:1: error: no header\n\nRuntimeError: build failed"
    wrapper = made("wrapper", {"pattern": "build failed", "wrapper": True})

    assert _ids(text, wrapper, _family("f", "no header")) == ["f"]
    assert _ids(text, wrapper) == ["wrapper"]


def test_a_family_of_any_refusal_leaves_the_wrapper_in_its_place() -> None:
    """What knows no more than the class and the place says less than `a build failed`."""
    text = "ValueError: no attention\n\nRuntimeError: build failed"
    wrapper = made("wrapper", {"pattern": "build failed", "wrapper": True})
    any_refusal = _family("any", "no attention", log={"wrapper": True})

    assert _ids(text, wrapper, any_refusal) == ["wrapper"]
    assert _ids(text, any_refusal) == ["any"]
    assert _ids("no kernel\n\nValueError: no attention", any_refusal, _family("f", "no kernel"))[0] == "f"


def test_a_check_that_needs_a_fact_waits_for_it() -> None:
    """Unlike others it is not offered while the fact is unknown."""
    check = {"text": "look there", "when": [{"fact": "subject.package", "equals": "xformers"}]}
    family = _family("f", "no kernel", check=[{"text": "look"}, {**check, "only_with_facts": True}])

    assert [one.title for one in _found("no kernel", family)[0].remedies] == ["look"]
    assert [one.title for one in _found("xformers has no kernel", family)[0].remedies] == ["look", "look there"]


def test_one_family_a_message() -> None:
    """Of several the one of the lowest rank; a line that is no trouble of ours only where nothing else is known, while
    an exception that is none may be the reason of ours.
    """
    near, far = _family("near", "no backend", rank=40), _family("far", "backend here")

    assert _ids("ValueError: no backend here", far, near) == ["near"]
    other = _family("other", "memory is full", ours=False, check=[])
    assert _ids("ValueError: no backend here\n\nValueError: memory is full", near, other) == ["near", "other"]
    assert _ids("ValueError: no backend here\n\nthe memory is full", near, other) == ["near"]
    assert _ids("ValueError: memory is full", near, other) == ["other"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("vllm.errors.BackendError: no backend", ["f"]),
        ("BackendError: no backend of vLLM", ["f"]),
        ("no backend of vLLM", ["f"]),
        ("KeyError: no backend of vLLM", []),
        ("BackendError: no backend", []),
        ("BackendError: no backend of xformers", []),
    ],
)
def test_class_and_owner_have_to_be_its_own(text: str, found: list[str]) -> None:
    """A message that shows no class passes; one that tells no owner does not."""
    assert _ids(text, _family("f", "no backend", owner=["vllm"], exception=["BackendError"])) == found


def test_reasons_are_taken_from_the_message_or_from_around_it() -> None:
    """Each reason has its owner, line by line."""
    listed = {"reasons": r"(?P<of>[A-Z]+): \[(?P<reason>[^\]]*)\]"}
    inside = _family("f", "no backend", log=listed)
    nearby = _family(
        "f", "no backend", log={"reasons": "Disabling (?P<of>F[A-Z]+) due to (?P<reason>.*)", "reasons_nearby": True}
    )

    def told(text: str, one: Recipe) -> list[object]:
        (finding,) = _found(text, one)
        return [fact.state.value for fact in finding.evidence if str(fact.name) == "log.reasons"]  # type: ignore[union-attr]

    assert told("ValueError: no backend {FA: [sinks], FI: [old\n gpu]}", inside) == [
        ("FA: sinks", "FI: old", "FI: gpu")
    ]
    assert told("DEBUG:Disabling FA due to a mask\nValueError: no backend", nearby) == [("FA: a mask",)]
    assert told("ValueError: no backend", inside) == []


def test_a_faulty_file_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    """As a recipe's is."""
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "mine.toml").write_text(
        '[[family]]\nid = "Wrong"\ntitle = "t"\nabout = "weather"\nchecked = 2026-11-22\nwhat = "w"\n'
        '[[family.log]]\npattern = "abc"\n[[family.case]]\nlog = "x"\nexpect = "finds"\n'
    )

    with pytest.raises(BrokenRecipe) as refused:
        shelf.named(tmp_path)

    words = str(refused.value)
    assert "family[0].id" in words
    assert "family[0].about" in words
    assert "4 literal characters" in words


def test_families_of_a_named_folder_count(tmp_path: Path) -> None:
    """They stand in for the bundled ones of their id, and one is shown as it is written."""
    (tmp_path / "families").mkdir()
    source = shelf.source(FAMILIES[0])
    (tmp_path / "families" / "mine.toml").write_text(source + "\n" + shelf.source(FAMILIES[1]))

    known = {one.id: one for one in shelf.shelf([tmp_path])}

    assert known[FAMILIES[0].id].origin == str(tmp_path / "families" / "mine.toml")
    assert shelf.source(known[FAMILIES[0].id]) == source


def test_a_large_log_is_not_searched_for_the_small_words_of_families() -> None:
    """They stand in training lines; the exception that they belong to leads there anyway."""
    small, telling = _family("small", r"is not \d"), _family("telling", "no backend at all here")
    patterns = Patterns([small, telling, made("exact", {"pattern": "need"})])

    assert set(patterns.literals) == {"no backend at all here", "need"}
    scanner = Scanner(patterns)
    far = "".join(f"step {number} loss 2.1\n" for number in range(5000))
    assert [one.recipe.id for one in scanner.scan("x", [far, "ValueError: 3 is not 4\n", far]).matches] == ["small"]


def test_a_notice_does_not_lead_where_an_exception_is_of_a_family() -> None:
    """What is harmless stands behind what failed; alone with a family of plain lines it leads."""
    notice = made("notice", {"pattern": "looks odd", "severity": "info", "confirms": True})
    family = _family("failed", "no backend")

    assert _ids("this looks odd\nValueError: no backend here\n", notice, family) == ["failed", "notice"]
    assert _ids("this looks odd\nno backend here\n", notice, family) == ["notice", "failed"]


def test_what_failed_stands_before_what_a_notice_says() -> None:
    """A record of a failure leads, also where a warning stands above it."""
    slow, broken = _family("slow", "window is slow"), _family("broken", "no code for this device")
    notice = "WARNING 05-15 10:00:00 [a.py:1] the window is slow here\n"

    assert _ids(notice + "ERROR 05-15 10:00:01 [b.py:2] no code for this device", slow, broken) == ["broken", "slow"]
    assert _ids(notice + "RuntimeError: no code for this device", slow, broken) == ["broken", "slow"]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("ValueError: no kernel for training. Please use `--sdpa` instead.", "Please use `--sdpa` instead"),
        ("RuntimeError: no kernel\nSet KERNEL_BACKEND=SLOW to go on", "Set KERNEL_BACKEND=SLOW to go on"),
        ("RuntimeError: no kernel, try setting `fast=False`.", "try setting `fast=False`"),
        ("RuntimeError: no kernel. Set KERNEL_DEBUG=1 for more.", None),
        ("RuntimeError: no kernel. Please pass `trust_remote_code=True`.", None),
        ("RuntimeError: no kernel. Use `pip install kernel`.", None),
        ("RuntimeError: no kernel. Use more time.", None),
        ("RuntimeError: no kernel, using CUDA_HOME='/usr'", None),
    ],
)
def test_what_the_message_says_to_do_comes_first(message: str, advice: str | None) -> None:
    """It knows the case and the family does not; more words, installs and other people's code are no cure."""
    (finding,) = explain_text(
        message, [_family("f", "no kernel", check=[{"text": "look"}])], FactSet()
    ).diagnosis.findings

    wanted = [f"The message itself says what to try: {advice}", "look"] if advice else ["look"]
    assert [remedy.title for remedy in finding.remedies] == wanted
