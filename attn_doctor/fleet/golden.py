"""attn-doctor/golden/v1: the present majority, stored as the baseline for later fleet checks.

A golden file takes precedence over the vote, and is the only way to notice that all nodes are wrong in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.fleet.cohort_diff import Expectation, majority
from attn_doctor.fleet.cohorts import cohorts as form_cohorts
from attn_doctor.fleet.gather import CohortKey, Gathered
from attn_doctor.machine.files import read_input
from attn_doctor.machine.printable import json_text
from attn_doctor.quick_dataclasses import dataclass

SCHEMA = "attn-doctor/golden/v1"
_MOST_BYTES = 64 << 20
_HINT = "Give a file that `attn-doctor fleet golden` wrote."


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A golden file."""

    cohort_by: tuple[str, ...]
    cohorts: Mapping[CohortKey, Expectation]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGolden:
    """A new golden file as JSON text, and the facts that it does not contain."""

    text: str
    cohorts: int
    undecided: tuple[str, ...]
    """Facts without a majority: the file has no value for them."""


def make_golden(gathered: Gathered, *, cohort_by: tuple[str, ...], created: str) -> NewGolden:
    """Makes a golden file from these reports; each node has one vote."""
    written_cohorts: list[dict[str, Any]] = []
    undecided: set[str] = set()
    for key, there in form_cohorts((record for _, record in gathered.every()), cohort_by, as_given=True).items():
        facts, left = majority(gathered, there)
        undecided.update(left)
        quick = all(member.quick for member in there)
        written_cohorts.append({"cohort": dict(key), "quick": quick, "nodes": len(there), "facts": facts})
    written = {"schema": SCHEMA, "created": created, "cohort_by": list(cohort_by), "cohorts": written_cohorts}
    return NewGolden(
        text=json_text(written, indent=2) + "\n",
        cohorts=len(written_cohorts),
        undecided=tuple(sorted(undecided)),
    )


def read(file: Path) -> Golden:
    """Reads a golden file.

    Raises BadInput.
    """
    about = f"--golden {file}"
    try:
        written = json.loads(read_input(file, most=_MOST_BYTES))
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"it is not JSON: {str(error)[:200]}", about=about, hint=_HINT) from None
    if not isinstance(written, dict) or written.get("schema") != SCHEMA:
        raise BadInput(f"it is not of the format {SCHEMA}", about=about, hint=_HINT)
    try:
        cohort_by = tuple(_text(one) for one in written["cohort_by"])
        cohorts = {
            tuple((name, _text(one["cohort"][name])) for name in cohort_by): Expectation(facts=_facts(one["facts"]))
            for one in written["cohorts"]
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"it is damaged: {type(error).__name__}: {error}", about=about, hint=_HINT) from None
    return Golden(cohort_by=cohort_by, cohorts=cohorts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {str(value)[:60]}")
    return value


def _facts(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(_comparable(one) for one in value.values()):
        raise TypeError("its facts are none")
    return value


def _comparable(value: Any) -> bool:
    plain = (str, int, float, type(None))
    return isinstance(value, plain) or (isinstance(value, list) and all(isinstance(one, plain) for one in value))
