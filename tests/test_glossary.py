"""docs/glossary.md explains the words of the project, and every word by which a report or a plan names its parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attn_doctor
from attn_doctor.model.findings import Finding, Safety, Severity
from attn_doctor.model.plans import Reversal
from attn_doctor.report.words import phrases
from attn_doctor.report.words import verdict as spoken

ROOT = Path(attn_doctor.__file__).parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
_ROWS = [line.strip("| \n").split(" | ") for line in GLOSSARY.splitlines() if line.startswith("| ")]


def _labels(source: str) -> Iterator[str]:
    """Labels of rows and `[headings]` that a page writes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "_row":
            texts = (one.body if isinstance(one, ast.IfExp) else one for one in node.args)
            label = next((one.value for one in texts if isinstance(one, ast.Constant)), "")
            yield str(label)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^\[([a-z ]{4,})\]", node.value)


PAGES = sorted((ROOT / "attn_doctor" / "report" / "terminal").glob("*.py"))
LABELS = sorted(
    {label.strip() for page in PAGES for label in _labels(page.read_text())} - {"", "step", "facts", "kernels"}
)


def test_labels_are_found() -> None:
    """The search sees labels of all three sorts: a plain one, one of two, a heading."""
    assert {"why", "confidence", "because", "fix", "also at", "skipped", "open questions", "by hand"} <= {*LABELS}


@pytest.mark.parametrize("label", [*LABELS, *Severity, *Safety, *Reversal])
def test_what_a_report_names_is_explained(label: str) -> None:
    """Labels, severities, safeties and reversals stand in it as they are printed."""
    word = getattr(label, "value", label)

    assert re.search(rf"`\[?{re.escape(word)}\]?`", GLOSSARY)


@pytest.mark.parametrize("verdict", ["raises", "silently mixed", "promoted then repaired", "clean"])
def test_verdicts_are_explained(verdict: str) -> None:
    """In the words that people read."""
    assert f"| `{spoken.of_trace(verdict)}` |" in GLOSSARY


@pytest.mark.parametrize(
    "how",
    [{"certainty": "seen"}, {}, {"by_words": True}, {"possible": True}],
    ids=["seen", "likely", "words", "possible"],
)
def test_confidence_is_explained(how: dict[str, Any]) -> None:
    """The first word of each confidence."""
    finding = Finding(id="x", severity=Severity.ERROR, title="", **how)

    assert f"| `{phrases.confidence(finding).partition(':')[0]}` |" in GLOSSARY


@pytest.mark.parametrize(
    "word",
    [
        "patient", "target", "fact", "finding", "remedy", "ground", "evidence", "symptom", "recipe", "treatment",
        "journal", "cohort", "fingerprint", "representative", "promotion", "cast back", "boundary",
    ],
)  # fmt: skip
def test_the_projects_own_words_are_explained(word: str) -> None:
    """Each in one sentence of its own row."""
    (row,) = [row for row in _ROWS if row[0] == f"**{word}**"]

    assert row[1].endswith(".")
    assert row[1].count(". ") == 0


def test_it_can_be_found() -> None:
    """From the first two documents that a reader opens."""
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text()
    assert "(glossary.md)" in (ROOT / "docs" / "architecture.md").read_text()
