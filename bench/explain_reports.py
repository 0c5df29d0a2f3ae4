"""How `attn-doctor explain` answers recorded reports of failures, and unrelated logs.

    python bench/explain_reports.py CASES.jsonl [CASES.jsonl ...] [--unrelated LOGS.jsonl ...] [--keep FOLDER] [--show]

A line of CASES is a report: {"id", "log", "env", "cause", "accept", "cure", "not_cure"}. `cause` is the recipe or the
family that says what is wrong, empty where the shelf has none; `accept` those that the log alone cannot tell from it;
`cure` and `not_cure` are regular expressions (case-insensitive, multi-line) over the first fix: its title, its texts,
its commands, a line each; `env` is what the person said beside the log, as in {"torch": "2.8.0", "gpu": "RTX 4090"}. A
line of LOGS is {"id", "log"}.

All of them are answered in one process, so a hundred take half a minute and not ten. --keep writes the answers as a
person and as a program reads them, before anything is scored: so they can be frozen, and judged by others. --show lists
what is not right.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attn_doctor.model.facts import FactSet  # noqa: E402
from attn_doctor.model.report import Report  # noqa: E402
from attn_doctor.probe.logs import Held  # noqa: E402
from attn_doctor.report import picker  # noqa: E402
from attn_doctor.report.renderer import EXPLAIN, Manner  # noqa: E402
from attn_doctor.workflows import explain as workflow  # noqa: E402
from attn_doctor.workflows.subject import NOBODY, pick_recipes  # noqa: E402

#: What a report says beside its log, and the fact that this is.
FACT_OF = {
    "torch": "package.torch.version",
    "triton": "package.triton.version",
    "flash_attn": "package.flash-attn.version",
    "transformers": "package.transformers.version",
    "gpu": "gpu.name",
    "driver": "driver.version",
    "python": "python.version",
}
PLAIN = re.compile(r"\d+(?:\.\d+)+[a-z0-9.+]*")


@dataclass(frozen=True)
class Answer:
    """What was said to one report."""

    ids: tuple[frozenset[str], ...]
    """Of each finding, by rank: its id and its aliases."""
    severities: tuple[str, ...]
    first_fix: str
    text: str
    json: dict[str, Any]


class Doctor:
    """The recipes, read once."""

    def __init__(self) -> None:
        self.recipes = pick_recipes((), (), ())

    def answer(self, log: str, env: dict[str, Any]) -> Answer:
        """Explains one log, as `attn-doctor explain --assume … -` does."""
        base = workflow.as_if_partly(FactSet(), None, tuple(assumptions(env)))
        report = workflow.explained(
            [Held("standard input", log.encode(errors="surrogateescape"))], self.recipes, base, NOBODY
        )
        text, data = (self._written(report, form) for form in ("text", "json"))
        told = json.loads(data)
        findings = told["findings"]
        return Answer(
            ids=tuple(frozenset((one["id"], *one.get("aliases", ()))) for one in findings),
            severities=tuple(one["severity"] for one in findings),
            first_fix=first_fix(findings[0]) if findings else "",
            text=text,
            json=told,
        )

    @staticmethod
    def _written(report: Report, form: str) -> str:
        out = io.StringIO()
        picker.pick(EXPLAIN, form).write(report, out, Manner())
        return out.getvalue()


def assumptions(env: dict[str, Any]) -> Iterator[str]:
    """What --assume is given."""
    for key, value in env.items():
        said = str(value).strip()
        if key in FACT_OF and (PLAIN.fullmatch(said) or (key == "gpu" and 0 < len(said) < 40 and "," not in said)):
            yield f"{FACT_OF[key]}={said}"


def words(value: Any) -> list[str]:
    """All strings within."""
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [word for one in value for word in words(one)] if isinstance(value, list) else [value] * isinstance(value, str)
    )


def first_fix(finding: dict[str, Any]) -> str:
    """What the first fix tells the reader to do, a line each."""
    fix: dict[str, Any] = next(iter(finding.get("remedies") or ()), {})
    lines = [fix.get("title", "")]
    for action in fix.get("actions", ()):
        lines += words(action.get("arguments", {}))
        lines += [one if isinstance(one, str) else shlex.join(words(one)) for one in action.get("commands", ())]
    return "\n".join(dict.fromkeys(line for line in lines if line.strip()))


def fault_of(case: dict[str, Any], text: str) -> str:
    """Why the first fix is not right; empty when it is."""

    def found(pattern: str) -> re.Match[str] | None:
        return re.search(pattern, text, re.IGNORECASE | re.MULTILINE)

    bad = found(case["not_cure"]) if case.get("not_cure") else None
    if bad is not None:
        return f"forbidden: {bad[0][:80]!r}"
    if case.get("cure") and not found(case["cure"]):
        return "another fix" if text else "no fix"
    return ""


def read(files: list[Path]) -> list[dict[str, Any]]:
    """The lines of the files."""
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


def score(doctor: Doctor, cases: list[dict[str, Any]], keep: Path | None, show: bool) -> Counter[str]:
    """Answers the reports, and counts."""
    tally: Counter[str] = Counter()
    for case in cases:
        said = doctor.answer(case["log"], case.get("env") or {})
        _put(keep, case["id"], said)
        near = {case["cause"], *case.get("accept", ())} - {""}
        known = bool(case["cause"]) and not case.get("undecidable")
        right = bool(said.ids) and bool(said.ids[0] & near)
        fault = fault_of(case, said.first_fix) if right else ""
        tally["reports"] += 1
        tally["with a cause"] += known
        tally["cause first"] += known and right
        tally["silent"] += not said.ids
        tally["another id"] += known and bool(said.ids) and not right
        tally["fixes"] += right and bool(case.get("cure") or case.get("not_cure"))
        tally["fix right"] += right and bool(case.get("cure") or case.get("not_cure")) and not fault
        tally["longest"] = max(tally["longest"], len(said.text.splitlines()))
        if show and known and (not right or fault):
            first = " ".join(sorted(said.ids[0])) if said.ids else "silent"
            print(f"{case['id']}: {first}" + (f", not {case['cause']}" if not right else f": {fault}"))
            print(
                "    " + said.first_fix.replace("\n", "\n    ")[:300]
                if right
                else f"    {case.get('resolution', '')[:200]}"
            )
    return tally


def alarms(doctor: Doctor, logs: list[dict[str, Any]], keep: Path | None, show: bool) -> Counter[str]:
    """Answers the unrelated logs, and counts those with an error or a warning."""
    tally: Counter[str] = Counter()
    for log in logs:
        said = doctor.answer(log["log"], {})
        _put(keep, log["id"], said)
        alarm = any(one in ("error", "warning") for one in said.severities)
        tally["unrelated"] += 1
        tally["alarms"] += alarm
        tally["notes"] += bool(said.ids) and not alarm
        if show and said.ids:
            print(f"{'ALARM' if alarm else 'note'} {log['id']}: {' '.join(sorted(said.ids[0]))}")
    return tally


def _put(keep: Path | None, name: str, said: Answer) -> None:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{name}.txt").write_text(said.text)
        (keep / f"{name}.json").write_text(json.dumps(said.json))


def main() -> int:
    """Measures, and judges nothing: the status is 0."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("cases", nargs="*", type=Path)
    asked.add_argument("--unrelated", nargs="*", default=[], type=Path)
    asked.add_argument("--keep", type=Path)
    asked.add_argument("--show", action="store_true")
    told = asked.parse_args()
    doctor = Doctor()
    tally = score(doctor, read(told.cases), told.keep, told.show) + alarms(
        doctor, read(told.unrelated), told.keep, told.show
    )
    for few, of in (
        ("cause first", "with a cause"),
        ("silent", "reports"),
        ("another id", "with a cause"),
        ("fix right", "fixes"),
        ("alarms", "unrelated"),
    ):
        if tally[of]:
            print(f"{few}: {tally[few]} of {tally[of]} ({tally[few] / tally[of]:.0%})")
    print(f"notes on unrelated logs: {tally['notes']}; the longest answer has {tally['longest']} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
