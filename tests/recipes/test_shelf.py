"""Reading recipes: the bundled shelf is whole, and broken files are told in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attn_doctor.diagnose.cases import run_cases
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.errors import BadInput, BrokenRecipe
from attn_doctor.model.findings import Severity
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Recipe
from tests.diagnose.log.making import given

BUNDLED = shelf.bundled()

WHOLE = """
format = 1
id = "a-trouble"
title = "Triton {package.triton.version} is a trouble"
severity = "warning"
checked = 2026-11-21
status = "stable"
since = "0.1.0"
what = "what"
why = "why"
[[reference]]
kind = "web"
url = "https://example.org/"
[[when]]
fact = "package.triton.version"
affected = { fixed = "3.0" }
[[remedy]]
id = "newer"
title = "Newer"
safety = "unsafe"
why_this_safety = "packages change"
actions = [{ kind = "install-packages", requirements = ["triton>=3.0"] }]
[[case]]
facts = { "package.triton.version" = "2.2.0" }
expect = "finds"
offers = ["newer"]
[[case]]
facts = { "package.triton.version" = "3.0.0" }
expect = "clears"
"""


def write(folder: Path, text: str | bytes, name: str = "a-trouble") -> Path:
    file = folder / "lib" / name / "recipe.toml"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_the_shelf_is_bundled() -> None:
    """The first shelf holds every recipe that the first release promises."""
    promised = {
        "torch-cpu-build", "torch-lacks-gpu-arch", "gpu-before-ampere", "bf16-unsupported-device", "driver-too-old",
        "flash-attn-extension-missing", "flash-attn-built-for-other-torch", "flash-attn-cxx11-abi-mismatch",
        "cuda-runtime-major-mismatch", "glibc-too-old", "triton-torch-mismatch", "triton-bf16-becomes-i16",
        "triton-hopper-wrong-gradients", "flash-attn-too-old-for-gpu", "extension-lacks-gpu-arch",
        "x-transformers-rotary-fp32", "fla-rwkv7-key-fp32", "llamafactory-fa2-without-half", "sdpa-cudnn-float-mask",
    }  # fmt: skip

    assert promised <= {recipe.id for recipe in BUNDLED}


def test_the_shelf_follows_the_format() -> None:
    """The bundled shelf is taken as sound when it is read; here it is held against the format."""
    shelf.check_bundled()


def faults(law: Callable[[Recipe], object]) -> dict[str, object]:
    """What a law has against each recipe of the shelf, by its id."""
    told = {recipe.id: law(recipe) for recipe in BUNDLED}
    return {recipe: fault for recipe, fault in told.items() if fault}


def test_cases() -> None:
    """Every recipe passes its own tests."""
    assert faults(lambda recipe: [result for result in run_cases(recipe) if result.fault]) == {}


def found_by(recipe: Recipe, number: int) -> bool:
    """Whether a case is found when the recipe has but this one log pattern: by the engine, as a log would be."""
    alone = replace(recipe, logs=(recipe.logs[number],))
    like = re.compile(recipe.logs[number].pattern, re.MULTILINE)
    cases = [case for case in recipe.cases if case.log is not None and case.expect != "clears"]
    return any(
        explain_text(case.log or "", [alone], given(case)).diagnosis.findings
        for case in sorted(
            cases, key=lambda case: not like.search(case.log or "")
        )  # the likeliest first: half the time
    )


def test_every_log_pattern_has_a_case() -> None:
    """No log pattern is there that no case has shown to find something: of a single one `test_cases` says it."""

    def unshown(recipe: Recipe) -> list[str]:
        if len(recipe.logs) == 1 and any(case.log and case.expect == "finds" for case in recipe.cases):
            return []
        return [log.pattern for number, log in enumerate(recipe.logs) if not found_by(recipe, number)]

    assert faults(unshown) == {}


def test_every_recipe_has_cases_of_both_kinds() -> None:
    """Each recipe that knows a log shows one that it finds and one, close to it, that it leaves alone."""

    def missing(recipe: Recipe) -> str:
        expected = {case.expect for case in recipe.cases if case.log is not None}
        if not {"finds", "clears"} <= {case.expect for case in recipe.cases}:
            return "no case of one of the two kinds"
        of_logs = expected & {"finds", "open"} and "clears" in expected
        return "" if not recipe.logs or of_logs else "no log of one of the two kinds"

    assert faults(missing) == {}


def test_every_reached_severity_has_a_case() -> None:
    """A recipe that can be reached shows both severities in its cases."""

    def missing(recipe: Recipe) -> set[Severity | None]:
        shown = {case.severity for case in recipe.cases if case.expect == "finds"}
        return {recipe.severity, recipe.severity_when_reached} - shown if recipe.reached else set()

    assert faults(missing) == {}


def test_pages_can_show_every_pattern() -> None:
    """Markdown takes `<![` for the beginning of a declaration, even in code, and the site is not built."""
    every = (*BUNDLED, *shelf.families())

    assert [one.id for one in every for log in one.logs if "<![" in log.pattern] == []


def test_explained_symptoms_exist() -> None:
    """What a recipe explains is a recipe."""
    ids = {recipe.id for recipe in BUNDLED}

    assert {entry.partition(":")[0] for recipe in BUNDLED for entry in recipe.explains} <= ids


def test_a_named_folder_is_read(tmp_path: Path) -> None:
    """A folder named on the command line adds its recipes, and may stand in for bundled ones."""
    write(tmp_path, WHOLE)
    recipes = {recipe.id: recipe for recipe in shelf.shelf([tmp_path])}

    assert recipes["a-trouble"].library == "lib"
    assert len(recipes) == len(BUNDLED) + len(shelf.families()) + 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("severity =", "severety ="), "severety: no such key"),
        (('package.triton.version"\naffected', 'package.triton.verzion"\naffected'), "unknown fact"),
        (("affected = { fixed", 'below = "3.0"\naffected = { fixed'), "asks 2 questions"),
        (("affected = { fixed =", "affected = { introduced ="), "open towards newer releases"),
        (('why_this_safety = "packages change"\n', ""), "a remedy that is not safe says why"),
        (('expect = "clears"', 'expect = "finds"'), "at least one case that finds it and one that clears it"),
        (("{package.triton.version}", "{package.triton.verzion}"), "unknown fact"),
        (('id = "a-trouble"', 'id = "A Trouble"'), "not an id"),
        (('id = "a-trouble"', 'id = "other"'), "its folder is 'a-trouble'"),
        (('url = "https', 'url = "ftp'), "url"),
        (('offers = ["newer"]', 'offers = ["older"]'), "no remedy of this recipe"),
        (("[[remedy]]", '[[when]]\nany = [{ fact = "torch.version", present = true }]\n[[remedy]]'), "when[1].any"),
    ],
)
def test_faults_are_told(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    """Each fault of a recipe file is named with its place."""
    assert change[0] in WHOLE
    write(tmp_path, WHOLE.replace(*change))

    with pytest.raises(BrokenRecipe, match=re.escape(told)):
        shelf.named(tmp_path)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    """Somebody who writes recipes mends a file once, not fault by fault."""
    write(tmp_path, WHOLE.replace("severity =", "severety =").replace('fixed = "3.0"', 'fixed = "three"'))

    with pytest.raises(BrokenRecipe) as raised:
        shelf.named(tmp_path)
    assert "severety" in raised.value.what
    assert "not a version: 'three'" in raised.value.what


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a = ", b""])
def test_what_is_no_recipe(tmp_path: Path, content: bytes) -> None:
    """Garbage is one clear error."""
    write(tmp_path, content)

    with pytest.raises(BrokenRecipe):
        shelf.named(tmp_path)


def test_nested_quantifiers_are_refused(tmp_path: Path) -> None:
    """A log pattern that could take exponential time does not come onto the shelf."""
    write(tmp_path, WHOLE + "\n[[log]]\npattern = '''(a+)+b'''\n")

    with pytest.raises(BrokenRecipe, match="exponential"):
        shelf.named(tmp_path)


FAMILY = """
[[family]]
id = "another-trouble"
title = "A trouble"
about = "build"
checked = 2026-11-21
what = "what"
references = ["https://example.org/"]
[[family.check]]
text = "one"
[[family.log]]
pattern = "the very message"
[[family.case]]
log = "the very message"
expect = "finds"
[[family.case]]
log = "another one"
expect = "clears"
"""


def write_family(folder: Path, text: str, name: str = "lib") -> None:
    (folder / "families").mkdir(exist_ok=True)
    (folder / "families" / f"{name}.toml").write_text(text)


def test_two_entries_of_one_id_are_refused(tmp_path: Path) -> None:
    """A recipe and a family, two recipes, or families of two files: only one of them would be read."""
    write(tmp_path, WHOLE)
    write_family(tmp_path, FAMILY)
    assert [one.id for one in shelf.named(tmp_path)] == ["a-trouble", "another-trouble"]

    write_family(tmp_path, FAMILY, "other")
    with pytest.raises(BrokenRecipe, match="two entries have the id 'another-trouble', a family and a family"):
        shelf.named(tmp_path)
    (tmp_path / "families" / "other.toml").unlink()
    write_family(tmp_path, FAMILY.replace("another-trouble", "a-trouble"))
    with pytest.raises(BrokenRecipe, match="two entries have the id 'a-trouble', a recipe and a family"):
        shelf.named(tmp_path)


def test_a_family_may_have_many_checks(tmp_path: Path) -> None:
    """Their conditions choose: few of them are for one log."""
    check = '[[family.check]]\ntext = "one"\n'
    write_family(tmp_path, FAMILY.replace(check, check * 40))
    assert len(shelf.named(tmp_path)[0].remedies) == 40

    write_family(tmp_path, FAMILY.replace(check, check * 65))
    with pytest.raises(BrokenRecipe, match="at most 64"):
        shelf.named(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """A folder without recipes is a mistake, not an empty shelf."""
    with pytest.raises(BadInput):
        shelf.named(tmp_path)
    with pytest.raises(BadInput):
        shelf.named(tmp_path / "missing")


def test_selection() -> None:
    """Recipes are picked by id, alias or library; a name that is none of them is refused."""
    triton = shelf.Selection(only=("triton",)).pick(BUNDLED)

    assert triton
    assert {recipe.library for recipe in triton} == {"triton"}
    with pytest.raises(BadInput, match="no recipe to judge by"):
        shelf.Selection(only=("triton",), skip=("triton",)).pick(BUNDLED)
    with pytest.raises(BadInput):
        shelf.Selection(skip=("tritn",)).pick(BUNDLED)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ('{ kind = "install-packages", requirements = ["-e ."] }', "not a requirement"),
        ('{ kind = "install-packages", requirements = ["--index-url=https://example.org/"] }', "not a requirement"),
        ('{ kind = "install-packages", requirements = ["x @ https://example.org/x.whl"] }', "without a URL"),
        ('{ kind = "install-packages", requirements = ["x; python_version > \'3\'"] }', "without a marker"),
        ('{ kind = "install-packages", requirements = ["x{package.nothing.such}"] }', "unknown fact"),
        ('{ kind = "install-packages", requirements = ["x==1"], index_url = "https://example.org" }', "no such key"),
        ('{ kind = "install-packages", requirements = ["x==1"], torch_backend = "cu128" }', "auto"),
        ('{ kind = "install-packages", requirements = ["x==1"], no_build_isolation = true }', "no_deps"),
        (
            '{ kind = "install-packages", requirements = ["x>=1"], no_deps = true, no_build_isolation = true }',
            "exact releases",
        ),
        ('{ kind = "install-wheel", package = "evil" }', "flash-attn"),
        ('{ kind = "install-wheel", package = "flash-attn", version = "2.8" }', "not a version specifier"),
        ('{ kind = "install-wheel", package = "flash-attn", url = "https://example.org/x.whl" }', "no such key"),
        ('{ kind = "set-environment", name = "A=1 B", value = "1" }', "name"),
        ('{ kind = "set-environment", name = "A", value = "$(id)" }', "value"),
        ('{ kind = "set-environment", name = "A", value = "1\'; id; \'" }', "value"),
        ('{ kind = "set-environment", name = "LD_PRELOAD", value = "/tmp/x.so" }', "what programs load or run"),
        ('{ kind = "set-environment", name = "PYTHONPATH", value = "/tmp" }', "what programs load or run"),
        ('{ kind = "set-environment", name = "PIP_INDEX_URL", value = "x" }', "what programs load or run"),
        ('{ kind = "set-environment", name = "PATH", value = "/tmp" }', "what programs load or run"),
    ],
)
def test_actions_that_reach_too_far(tmp_path: Path, action: str, told: str) -> None:
    """No place to install from, no option of an installer, nothing that a shell would run."""
    text = re.sub(r"actions = .*", lambda _: f"actions = [{action}]", WHOLE)
    assert action in text
    write(tmp_path, text)

    with pytest.raises(BrokenRecipe, match=told):
        shelf.named(tmp_path)


@pytest.mark.parametrize(
    "action",
    [
        '{ kind = "install-packages", requirements = ["triton{torch.triton_requirement}"], no_deps = true }',
        '{ kind = "install-packages", requirements = ["x=={package.torch.version}"], no_deps = true, no_cache = true }',
        '{ kind = "install-packages", requirements = ["x==1"], no_deps = true, no_build_isolation = true }',
        '{ kind = "install-packages", requirements = ["torch"], force_reinstall = true, torch_backend = "auto" }',
        '{ kind = "install-wheel", package = "flash-attn", version = "=={package.flash-attn.version}" }',
        '{ kind = "set-environment", name = "TORCH_COMPILE_DISABLE", value = "1" }',
        '{ kind = "set-environment", name = "TRITON_PTXAS_PATH", value = "/usr/local/cuda/bin/ptxas" }',
    ],
)
def test_actions_that_are_sound(tmp_path: Path, action: str) -> None:
    """Every option of an installation, filled from facts or not."""
    write(tmp_path, re.sub(r"actions = .*", lambda _: f"actions = [{action}]", WHOLE))

    assert shelf.named(tmp_path)[0].remedies[0].actions
