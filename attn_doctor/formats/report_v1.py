"""attn-doctor/report/v1: the stable format of a report.

A later release may add keys, but never rename, remove or redefine one; the records of model/ may change freely.
`attn-doctor schema` prints the JSON Schema (report_v1.schema.json in this folder).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn_doctor.errors import BadInput
from attn_doctor.formats import findings_v1, identity_v1
from attn_doctor.formats.facts_v1 import check_types, fact_from_json, fact_to_json, named_fact_to_json
from attn_doctor.machine.printable import json_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import (
    Diagnosis,
    OpenQuestion,
    Severity,
)
from attn_doctor.model.report import Examined, Failure, LogRead, Near, OwnFault, Report
from attn_doctor.quick_dataclasses import asdict

if TYPE_CHECKING:
    from attn_doctor.model.full_verdict import FullVerdict
    from attn_doctor.model.kernels import KernelTrials

SCHEMA = "attn-doctor/report/v1"
#: Largest file accepted, in bytes; real reports have about 50 kB.
LARGEST = 64 << 20
_SCHEMA_FILE = Path(__file__).with_name("report_v1.schema.json")


def json_schema() -> str:
    """The JSON Schema of the format, as text."""
    return _SCHEMA_FILE.read_text()


def dumps(report: Report) -> str:
    """The report as JSON text."""
    return json_text(to_json(report), indent=2) + "\n"


def line(report: Report) -> str:
    """The report as JSON text in one line with line end: for streams of many reports, and for folders of thousands."""
    return json_text(to_json(report), compact=True) + "\n"


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    diagnosis = report.diagnosis
    gating = [finding for finding in diagnosis.findings if finding.accepted is None]
    return {
        "schema": SCHEMA,
        "doctor_version": report.doctor_version,
        "command": report.command,
        "created": report.created,
        "target": {
            "python": report.examined.python,
            "version": report.examined.version,
            "environment": report.examined.environment,
            "because": report.examined.because,
            "others": list(report.examined.others),
            **({"dead": report.examined.dead} if report.examined.dead else {}),
        },
        "quick": report.quick,
        "assumed": list(report.assumed),
        **({"limited_to": list(report.limited_to)} if report.limited_to else {}),
        **({"left_out": list(report.left_out)} if report.left_out else {}),
        "summary": {
            **{f"{severity.value}s": sum(one.severity is severity for one in gating) for severity in Severity},
            "accepted": len(diagnosis.findings) - len(gating),
            "open_questions": len(diagnosis.open_questions),
            "exit_status": report.exit_status,
            **({"nothing_to_examine": report.nothing_to_examine} if report.nothing_to_examine else {}),
        },
        "findings": [
            {**findings_v1.to_json(finding), **({"foreseen": True} if report.foreseen is not None else {})}
            for finding in diagnosis.findings
        ],
        "open_questions": [
            {
                "recipe": question.recipe,
                "title": question.title,
                "subject": question.subject,
                "undecided": [named_fact_to_json(fact) for fact in question.undecided],
            }
            for question in diagnosis.open_questions
        ],
        "cleared": list(diagnosis.cleared),
        "not_asked": list(diagnosis.not_asked),
        "facts": {str(fact.name): fact_to_json(fact) for fact in report.facts.values()},
        **_answers(trace=report.trace_answer, compiled=report.compiled_answer, semantics=report.semantics_answer),
        **({"kernels": _kernels(report.kernels)} if report.kernels is not None else {}),
        **({"logs": [asdict(log) for log in report.logs]} if report.logs else {}),
        **({"nearest": [asdict(one) for one in report.nearest]} if report.nearest else {}),
        **({"looked_for": list(report.looked_for)} if report.looked_for else {}),
        **(identity_v1.to_json(report.identity) if report.identity is not None else {}),
        **(
            {"foreseen": {**asdict(report.foreseen), "notes": list(report.foreseen.notes)}}
            if report.foreseen is not None
            else {}
        ),
        **({"own_faults": [asdict(fault) for fault in report.own_faults]} if report.own_faults else {}),
        **({"full_examination": _full(report)} if report.full is not None or report.no_full else {}),
        **({"failure": asdict(report.failure)} if report.failure is not None else {}),
    }


def _answers(**answers: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: dict(answer) for name, answer in answers.items() if answer is not None}


def text_of(file: Path, *, about: str, hint: str) -> str:
    """The text of a report file. Raises BadInput when it cannot be read."""
    try:
        # open() would wait for ever for a FIFO of that name.
        if not file.is_file():
            there = "that is no file" if file.exists() else "there is no such file"
            raise BadInput(there, about=about, hint=hint)
        if file.stat().st_size > LARGEST:
            raise BadInput(f"the file is larger than {LARGEST >> 20} MiB", about=about, hint=hint)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the report cannot be read: {error.strerror}", about=about, hint=hint) from None
    except UnicodeDecodeError:
        raise BadInput("the report is not UTF-8", about=about, hint=hint) from None
    except ValueError as error:  # a NUL in the name
        raise BadInput(f"the report cannot be read: {error}", about=about, hint=hint) from None


def read(file: Path, *, about: str = "") -> Report:
    """Reads a report file.

    Raises BadInput when it cannot be read or is not a report of this format.
    """
    about = about or str(file)
    text = text_of(file, about=about, hint="Give a file written by `attn-doctor check --json`.")
    return loads(text, about=about)


def loads(text: str, *, about: str) -> Report:
    """A report from JSON text.

    Raises BadInput when it is not a report of this format.
    """
    hint = "Give a file written by `attn-doctor check --json`."
    try:
        written = json.loads(text)
    except ValueError as error:
        raise BadInput(f"the report is not JSON: {error}", about=about, hint=hint) from None
    except RecursionError:
        raise BadInput("the report is not one of ours: it is nested too deeply", about=about, hint=hint) from None
    if not isinstance(written, dict) or written.get("schema") != SCHEMA:
        raise BadInput(f"the file is not a report of the format {SCHEMA}", about=about, hint=hint)
    try:
        return from_json(written)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadInput(f"the report is damaged: {type(error).__name__}: {error}", about=about, hint=hint) from None


def from_json(written: dict[str, Any]) -> Report:
    """The reverse of `to_json`; unknown keys are ignored.

    Raises KeyError, TypeError or ValueError when it is not a valid report.
    """
    target = written["target"]
    check_types(written, str, "command", "doctor_version", "created")
    check_types(written, bool, "quick")
    check_types(written["summary"], int, "exit_status")
    return Report(
        command=written["command"],
        doctor_version=written["doctor_version"],
        created=written["created"],
        examined=Examined(
            python=target["python"],
            version=target["version"],
            environment=target["environment"],
            because=target["because"],
            others=tuple(target["others"]),
            dead=str(target.get("dead", "")),
        ),
        quick=written["quick"],
        assumed=tuple(written["assumed"]),
        limited_to=tuple(str(one) for one in written.get("limited_to", ())),
        left_out=tuple(str(one) for one in written.get("left_out", ())),
        diagnosis=Diagnosis(
            findings=tuple(findings_v1.from_json(one) for one in written["findings"]),
            open_questions=tuple(
                OpenQuestion(
                    recipe=one["recipe"],
                    title=one["title"],
                    subject=one["subject"],
                    undecided=tuple(fact_from_json(fact["fact"], fact) for fact in one["undecided"]),
                )
                for one in written["open_questions"]
            ),
            cleared=tuple(written["cleared"]),
            not_asked=tuple(written["not_asked"]),
        ),
        exit_status=written["summary"]["exit_status"],
        facts=FactSet(fact_from_json(name, fact) for name, fact in written["facts"].items()),
        trace_answer=written.get("trace"),
        semantics_answer=written.get("semantics"),
        compiled_answer=written.get("compiled"),
        kernels=_read_kernels(written.get("kernels")),
        logs=tuple(
            LogRead(**{key: one[key] for key in ("name", "lines", "failures", "unknown_line", "unknown", "note")})
            for one in written.get("logs", ())
        ),
        nearest=tuple(Near(id=str(one["id"]), title=str(one["title"])) for one in written.get("nearest", ())),
        looked_for=tuple(written.get("looked_for", ())),
        identity=identity_v1.from_json(written) if "node" in written else None,
        own_faults=tuple(
            OwnFault(part=str(one["part"]), error=str(one["error"]), log=str(one["log"]))
            for one in written.get("own_faults", ())
        ),
        full=_read_full(written.get("full_examination")),
        no_full=str((written.get("full_examination") or {}).get("none_because", "")),
        failure=Failure(**{key: written["failure"][key] for key in ("what", "about", "hint")})
        if "failure" in written
        else None,
    )


def _full(report: Report) -> dict[str, Any]:
    if report.full is None:
        return {"none_because": report.no_full}
    from attn_doctor.formats import full_verdict_v1  # which few reports have

    return full_verdict_v1.to_json(report.full)


def _read_full(written: Any) -> FullVerdict | None:
    if written is None or "none_because" in written:
        return None
    from attn_doctor.formats import full_verdict_v1  # which few reports have

    return full_verdict_v1.from_json(written)


def _kernels(trials: KernelTrials) -> dict[str, Any]:
    from attn_doctor.formats import kernels_v1  # records that few reports need

    return kernels_v1.to_json(trials)


def _read_kernels(written: Any) -> KernelTrials | None:
    """Raises KeyError or TypeError when it is damaged."""
    if written is None:
        return None
    from attn_doctor.formats import kernels_v1  # records that few reports need

    return kernels_v1.from_json(written)
