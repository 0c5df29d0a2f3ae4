"""From facts and recipes to findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import Unknown
from attn_doctor.model.findings import Safety, Severity
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Recipe
from tests.diagnose.test_derived import facts

_HEAD = """
format = 1
id = "{id}"
title = "{title}"
severity = "{severity}"
{more}
checked = 2026-11-21
status = "stable"
since = "0.1.0"
what = "what"
why = "why"
[[reference]]
kind = "web"
url = "https://example.org/"
"""
_TAIL = """
[[case]]
expect = "finds"
[[case]]
expect = "clears"
"""


@pytest.fixture
def recipe(tmp_path: Path):
    """Makes a recipe of the given id from its conditions."""

    def make(id_: str, rest: str, *, title: str = "t", severity: str = "warning", more: str = "") -> Recipe:
        file = tmp_path / "lib" / id_ / "recipe.toml"
        file.parent.mkdir(parents=True)
        file.write_text(_HEAD.format(id=id_, title=title, severity=severity, more=more) + rest + _TAIL)
        return next(one for one in shelf.named(tmp_path) if one.id == id_)

    return make


_EACH_GPU = '[[when]]\nfact = "gpu.compute_capability"\nfor_each = "gpu"\nbelow = "8.0"\n'
_FAILED = '[[when]]\nfact = "import.outcome"\nfor_each = "import"\nequals = "failed"\n'


def test_each_gpu_is_judged_and_equal_findings_are_folded(recipe) -> None:
    """Seven T4 of eight are one finding on seven subjects."""
    box = facts(
        listed__gpu=8, **{f"gpu__{i}__compute_capability": "7.5" for i in range(7)}, gpu__7__compute_capability="9.0"
    )
    found = judge(box, [recipe("old-gpu", _EACH_GPU)]).findings

    assert len(found) == 1
    assert found[0].subjects == tuple(f"gpu {i}" for i in range(7))


def test_what_is_folded_says_of_each_what_is_so(recipe) -> None:
    """Two sorts of GPU in one finding: what is said of the one is not said of the other."""
    own = recipe("old", _EACH_GPU)
    box = facts(
        listed__gpu=3, **{f"gpu__{i}__compute_capability": text for i, text in enumerate(("7.5", "7.0", "7.5"))}
    )
    told = replace(own, what="It is of {gpu.compute_capability}.")

    (alike,) = judge(box, (own,)).findings
    (finding,) = judge(box, (told,)).findings

    assert alike.what == "what"
    assert finding.what == "gpu 0, gpu 2: It is of 7.5. gpu 1: It is of 7.0."


def test_findings_that_read_differently_stay_apart(recipe) -> None:
    """Two sorts of GPU make two findings when the title names them."""
    box = facts(listed__gpu=2, gpu__0__compute_capability="7.5", gpu__1__compute_capability="7.0")
    one = recipe("old-gpu", _EACH_GPU, title="compute capability {gpu.compute_capability}")

    assert [finding.title for finding in judge(box, [one]).findings] == [
        "compute capability 7.5",
        "compute capability 7.0",
    ]


def test_no_gpu_settles_and_no_look_does_not(recipe) -> None:
    """Known to have no GPU clears a recipe for GPUs; a driver that hangs leaves it open."""
    one = recipe("old-gpu", _EACH_GPU)

    assert judge(facts(listed__gpu=0), [one]).cleared == ("old-gpu",)
    assert judge(facts(listed__gpu=Unknown("hung")), [one]).open_questions[0].recipe == "old-gpu"
    assert judge(facts(), [one]).open_questions


def test_what_was_not_asked_for_is_no_open_question(recipe) -> None:
    """--quick leaves recipes undecided that rest on imports; that is the person's choice, and said apart."""
    asked = facts(listed__import=Unknown("not asked for", asked=False))
    diagnosis = judge(asked, [recipe("fails", _FAILED)])

    assert diagnosis.open_questions == ()
    assert diagnosis.not_asked == ("fails",)


def test_a_symptom_hangs_under_its_cause(recipe) -> None:
    """One root cause is reported once; what it does hangs under it and makes it as bad as that."""
    cause = recipe(
        "cause",
        '[[when]]\nfact = "package.flash-attn.version"\npresent = true\n',
        more='explains = ["symptom:flash_attn"]',
    )
    symptom = recipe("symptom", _FAILED, severity="error")
    seen = facts(
        listed__package=1,
        listed__import=2,
        import__flash_attn__outcome="failed",
        import__fla__outcome="failed",
        **{"package__flash-attn__version": "2.8.3"},
    )
    found = judge(seen, [cause, symptom]).findings

    assert [(finding.id, finding.subjects) for finding in found] == [("cause", ()), ("symptom", ("import fla",))]
    assert found[0].severity is Severity.ERROR
    assert found[0].certainty == "seen"
    assert [inner.subjects for inner in found[0].symptoms] == [("import flash_attn",)]


def test_reached(recipe) -> None:
    """A hazard is a warning until something ran into it."""
    one = recipe(
        "hazard",
        '[[when]]\nfact = "package.triton.version"\naffected = { fixed = "3.0" }\n'
        '[[reached]]\nfact = "import.triton.outcome"\nequals = "crashed"\n',
        more='severity_when_reached = "error"',
    )
    quiet = facts(
        listed__package=1, listed__import=1, package__triton__version="2.2.0", import__triton__outcome="imported"
    )
    loud = quiet.with_facts(facts(import__triton__outcome="crashed").values())

    assert judge(quiet, [one]).findings[0].severity is Severity.WARNING
    assert judge(loud, [one]).findings[0].severity is Severity.ERROR


def test_remedies_whose_conditions_fail_are_not_offered(recipe) -> None:
    """A torch of CUDA 13 is no cure for a driver that cannot run it."""
    one = recipe(
        "old",
        '[[when]]\nfact = "package.triton.version"\npresent = true\n'
        '[[remedy]]\nid = "new"\ntitle = "n"\nsafety = "safe"\n'
        'actions = [{ kind = "install-packages", requirements = ["torch>=2.12.1"], no_deps = true }]\n'
        '[[remedy.when]]\nfact = "driver.version"\nat_least = "580"\n',
    )
    node = facts(
        listed__package=1, package__triton__version="3", driver__version="580.1", python__executable="/p y/python"
    )

    remedy = judge(node, [one]).findings[0].remedies[0]
    assert remedy.actions[0].commands == ("'/p y/python' -m pip install --no-deps 'torch>=2.12.1'",)
    assert judge(node.with_facts(facts(driver__version="570.1").values()), [one]).findings[0].remedies == ()


_ADVICE = 'actions = [{ kind = "advise", text = "t" }]\n'


def _with(recipe, *remedies: str) -> Recipe:
    return recipe("old", '[[when]]\nfact = "package.triton.version"\npresent = true\n' + "".join(remedies))


def _offered(one: Recipe, **known: str) -> list[str]:
    """The ids of the remedies, in the order of the report."""
    node = facts(listed__package=1, package__triton__version="3", **known)
    return [remedy.id for remedy in judge(node, [one]).findings[0].remedies]


def _remedy(id_: str, *conditions: str, more: str = "") -> str:
    asked = "".join(f"[[remedy.when]]\n{condition}\n" for condition in conditions)
    return f'[[remedy]]\nid = "{id_}"\ntitle = "t"\nsafety = "safe"\n{more}{_ADVICE}{asked}'


_DRIVER = 'fact = "driver.version"\nat_least = "580"'
_SYSTEM = 'fact = "node.system"\nequals = "Linux"'


def test_a_remedy_that_fits_comes_before_one_that_may_fit(recipe) -> None:
    """Among the remedies with conditions; those without any keep their places."""
    one = _with(
        recipe, _remedy("first"), _remedy("by-driver", _DRIVER), _remedy("general"), _remedy("by-system", _SYSTEM)
    )

    assert _offered(one) == ["first", "by-driver", "general", "by-system"]
    assert _offered(one, node__system="Linux") == ["first", "by-system", "general", "by-driver"]
    known = {"node__system": "Linux", "driver__version": "580.1"}
    assert _offered(one, **known) == ["first", "by-driver", "general", "by-system"]


_FOR_ENGINES = _remedy("for-engines", 'fact = "subject.package"\none_of = ["vllm", "sglang"]')


def test_a_remedy_for_some_packages_waits_until_the_package_is_known(recipe) -> None:
    """What helps one package is no remedy for another."""
    one = _with(recipe, _FOR_ENGINES, _remedy("general"))

    assert _offered(one) == ["general"]
    assert _offered(one, subject__package="vllm") == ["for-engines", "general"]


def test_a_remedy_for_some_packages_is_shown_where_there_is_no_other(recipe) -> None:
    """Its words say for which."""
    assert _offered(_with(recipe, _FOR_ENGINES)) == ["for-engines"]


def test_a_fallback_is_not_brought_forward(recipe) -> None:
    """That a node is one on which one can do without a package is no reason to do without it."""
    one = _with(recipe, _remedy("by-driver", _DRIVER), _remedy("do-without", _SYSTEM, more="fallback = true\n"))

    assert _offered(one, node__system="Linux") == ["by-driver", "do-without"]


def test_a_remedy_for_known_facts_alone_is_not_offered_on_a_guess(recipe) -> None:
    one = _with(recipe, _remedy("for-linux", _SYSTEM, more="only_with_facts = true\n"), _remedy("general"))

    assert _offered(one) == ["general"]
    assert _offered(one, node__system="Linux") == ["for-linux", "general"]


def test_a_remedy_is_withheld_where_a_fact_excludes_it_and_not_while_it_is_unknown(recipe) -> None:
    windows = 'unless = [{ fact = "node.system", equals = "Windows" }]\n'
    one = _with(recipe, _remedy("wheel", more=windows), _remedy("general"))

    assert _offered(one) == ["wheel", "general"]
    assert _offered(one, node__system="Linux") == ["wheel", "general"]
    assert _offered(one, node__system="Windows") == ["general"]


@pytest.mark.parametrize(("verdict", "safety"), [("raises", Safety.SAFE), ("silently mixed", Safety.UNSAFE)])
def test_a_cast_where_the_kernel_refuses_is_safe(verdict: str, safety: Safety) -> None:
    """No result changes where there is none; another one does."""
    (one,) = (recipe for recipe in shelf.bundled() if recipe.id == "fp32-promoted-before-kernel")
    node = facts(
        listed__promotion=1,
        promotion__0__call="aten::mul",
        promotion__0__verdict=verdict,
        promotion__0__place="model.py:31",
    )
    (found,) = judge(node, [one]).findings
    (cast,) = (remedy for remedy in found.remedies if remedy.id == "cast-back")

    assert cast.safety is safety
    assert ("refuses" in cast.why_this_safety) is (safety is Safety.SAFE)


def test_a_safe_and_an_unsafe_one_are_two_findings() -> None:
    """Equal but for that: one question is not about both."""
    (one,) = (recipe for recipe in shelf.bundled() if recipe.id == "fp32-promoted-before-kernel")
    both = {
        f"promotion__{number}__{name}": value
        for number, verdict in enumerate(("raises", "silently mixed"))
        for name, value in (("call", "aten::mul"), ("verdict", verdict), ("place", "model.py:31"))
    }

    assert len(judge(facts(listed__promotion=2, **both), [one]).findings) == 2


def test_the_worst_comes_first() -> None:
    """Errors before warnings, and among equals what is more basic before what rests on it."""
    node = facts(
        listed__gpu=1,
        listed__package=2,
        listed__import=0,
        listed__extension=0,
        listed__sample=0,
        listed__config=0,
        gpu__0__compute_capability="7.5",
        gpu__0__name="Tesla T4",
        torch__version="2.13.0",
        torch__cuda="13.0",
        torch__arch_list=("sm_80", "sm_90"),
        driver__version="535.1",
        driver__answers=True,
        **{"package__flash-attn__version": "2.8.3"},
    )
    found = judge(derive(node), shelf.bundled()).findings

    assert [finding.severity.rank for finding in found] == sorted(finding.severity.rank for finding in found)
    assert found[0].id == "driver-too-old"


class TestWhatNobodyLookedAt:
    """An open range ends at the last release that was looked at; what is newer still is said once."""

    _RANGE = '[[when]]\nfact = "package.triton.version"\naffected = { introduced = "3.4.0", looked_at = "3.7.1" }\n'

    @pytest.mark.parametrize(
        ("version", "found", "opened"),
        [
            ("3.3.1", [], []),
            ("3.7.1", ["a"], []),
            ("3.7.1+git1", ["a"], []),
            ("3.8.0", [], ["a"]),  # known to the shelf, and not looked at here
            ("99.0", ["newer-than-checked"], []),
        ],
    )
    def test_beyond(self, recipe, version: str, found: list[str], opened: list[str]) -> None:
        """Neither an error nor healthy."""
        (newer,) = [one for one in shelf.bundled() if one.id == "newer-than-checked"]
        here = derive(facts(listed__package=1, package__triton__version=version))
        diagnosis = judge(here, [recipe("a", self._RANGE), newer])

        assert [one.id for one in diagnosis.findings] == found
        assert [one.recipe for one in diagnosis.open_questions] == opened
        assert ("a" in diagnosis.cleared) is (version == "3.3.1")

    def test_said_once(self) -> None:
        """One finding for the environment, a note."""
        here = derive(facts(listed__package=2, package__torch__version="99.0", package__triton__version="99.0"))
        newer = [one for one in judge(here, shelf.bundled()).findings if one.id == "newer-than-checked"]

        assert [(one.severity, one.subjects) for one in newer] == [(Severity.INFO, ("package torch", "package triton"))]
