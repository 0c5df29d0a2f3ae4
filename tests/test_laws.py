"""Laws of the house that its imports and its line counts show."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from attn_doctor.model import dtypes
from attn_doctor.model.outcomes import BROKEN, Certainty, Outcome, TraceVerdict
from attn_doctor.patient import dtypes as their_dtypes
from attn_doctor.patient import outcomes as their_outcomes

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "attn_doctor"
MOST_LINES = 350
#: Files that may be longer, and why.
LONG = {
    "model/vocabulary.py": "one table: every fact there is",
}
#: From the highest to the lowest, as import-linter has them; those of one row know nothing of each other.
LAYERS = [
    [name.strip().removeprefix("attn_doctor.") for name in row.split("|")]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers"
    for row in contract["layers"]
]
#: (who, whom): loaded when a function of the package's is called.
ON_REQUEST = {("attn_doctor", "attn_doctor.api"), ("attn_doctor", "attn_doctor.watching")}


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that runs, those inside of functions too; not those for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from statements(ast.Module(body=[other], type_ignores=[]))
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        else:
            yield from statements(child)


def absolute(module: str, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    package = parts if FILES[module].name == "__init__.py" else parts[:-1]
    base = package[: len(package) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


@cache
def imported(module: str) -> frozenset[str]:
    """What a file of ours imports of ours."""
    found = set()
    for statement in statements(ast.parse(FILES[module].read_text())):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            base = absolute(module, statement)
            names = [f"{base}.{alias.name}" for alias in statement.names]
            names = [name if name in FILES else base for name in names]
        found |= {name for name in names if name in FILES and name != module}
    return frozenset(found)


def circle() -> list[str]:
    """The files of one circle of imports, in order; empty where there is none."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for other in sorted(imported(module)):
            found = walk(other, [*way, module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for module in FILES if (found := walk(module, []))), [])


def layer_of(module: str) -> int | None:
    """Its place in LAYERS; None for the patient's side and for what stands outside of the layers."""
    part = module.split(".")[1] if "." in module else ""
    return next((number for number, row in enumerate(LAYERS) if part in row), None)


def test_no_circle() -> None:
    """No file imports, by whatever way, a file that imports it; the patient's side included."""
    assert circle() == []


def test_no_import_runs_up() -> None:
    """A file imports from its own layer's folder and from those below, never from above or from beside."""
    wrong = []
    for module in FILES:
        own = layer_of(module)
        for other in imported(module):
            there = layer_of(other)
            if own is None or there is None or (module, other) in ON_REQUEST:
                continue
            same_folder = module.split(".")[1] == other.split(".")[1]
            if there < own or (there == own and not same_folder):
                wrong.append((module, other))

    assert wrong == []


def test_every_folder_has_a_layer() -> None:
    """No folder stands outside of the layers but the patient's, and the files that start the program."""
    named = {part for row in LAYERS for part in row}
    outside = {module.split(".")[1] for module in FILES if "." in module} - named

    assert outside == {"patient", "__main__", "version"}


def test_the_patients_side_is_apart() -> None:
    """patient/ imports nothing of ours but itself, by relative imports: it is loaded under another name."""
    wrong = []
    for module, file in FILES.items():
        if module.startswith("attn_doctor.patient"):
            wrong += [(module, name) for name in imported(module) if not name.startswith("attn_doctor.patient")]
            wrong += [(module, "attn_doctor") for line in file.read_text().splitlines() if "import attn_doctor" in line]
        else:
            wrong += [(module, name) for name in imported(module) if name.startswith("attn_doctor.patient")]

    assert wrong == []


def test_a_file_is_one_idea() -> None:
    """A file is at most MOST_LINES long, but for those in LONG, which are."""
    lines = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in FILES.values()}

    assert {name: count for name, count in lines.items() if count > MOST_LINES and name not in LONG} == {}
    assert [name for name in LONG if lines.get(name, 0) <= MOST_LINES] == []


def compared(tree: ast.AST) -> Iterator[str]:
    """Strings that code compares something with: `==`, `!=`, `in (...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                parts = side.elts if isinstance(side, (ast.Tuple, ast.Set, ast.List)) else [side]
                for part in parts:
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value


#: Files whose words only look the same.
OTHER_MEANINGS = {
    "fleet/verdict.py",  # a node that answered
    "patient/imports.py",  # a key
    "patient/kernels/flex_kernels.py",  # how a child that compiles ended: simulate/children.py
    "patient/simulate/triton/canary.py",
    "patient/simulate/triton/compile.py",
    "workflows/traced_report.py",  # how a whole trace ended
}
#: Renderers read reports of any release, and still spell the words that these hold.
SPELLING = "report/"


def test_words_of_outcomes_stand_in_one_file() -> None:
    """Verdicts of traces, outcomes of imports and samples, certainty of findings: named once on each side."""
    words = {word.value for words in (TraceVerdict, Outcome, Certainty) for word in words} - {"clean"}
    found = {
        str(file.relative_to(PACKAGE))
        for file in FILES.values()
        if any(word in words for word in compared(ast.parse(file.read_text())))
    }

    assert {name for name in found if not name.startswith(SPELLING)} == OTHER_MEANINGS


def test_both_sides_have_the_same_words() -> None:
    """What the patient's side answers is what the doctor's side asks for."""
    assert set(their_outcomes.VERDICTS) == {verdict.value for verdict in TraceVerdict}
    assert set(their_outcomes.BROKEN) == set(BROKEN)
    assert {getattr(their_outcomes, outcome.name) for outcome in Outcome} == {outcome.value for outcome in Outcome}


def test_both_sides_have_the_same_dtypes() -> None:
    """A spelling of a dtype means the same on the command line and in a request; halves are the same two."""
    assert {spelled: dtypes.SPELLED.get(spelled) for spelled in their_dtypes.ALIASES} == their_dtypes.ALIASES
    assert set(their_dtypes.HALVES) == set(dtypes.HALVES)
    assert dtypes.SPELLED["fp8"] == their_dtypes.EIGHT_BITS


def test_a_word_is_a_string() -> None:
    """It is written and looked up as the string that files hold."""
    assert json.dumps({"a": TraceVerdict.MIXED}) == '{"a": "silently mixed"}'
    assert f"{Certainty.SEEN} {Outcome.HUNG!s} {Outcome.HUNG:>6}" == "seen hung   hung"
    assert {"raises": 1}[TraceVerdict.RAISES] == 1
