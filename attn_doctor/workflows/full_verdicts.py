"""Keeps the verdicts of full examinations in a folder, by the content of the environment, and finds them again.

One node examines an environment in full for a thousand that have it on one file system: those look at files alone, and
at this folder. A verdict counts only from a file that root or this user owns, in folders that nobody else can write.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from attn_doctor.formats import full_verdict_v1
from attn_doctor.machine.trust import others_who_write
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.full_verdict import OF_ONE_NODE, FullFinding, FullVerdict
from attn_doctor.model.report import Report
from attn_doctor.probe.packages.content_key import content_key
from attn_doctor.quick_dataclasses import dataclass

#: The folder of verdicts within a folder of reports.
WITHIN = "verdicts"
VARIABLE = "ATTN_DOCTOR_VERDICTS"
#: Seconds for a file server that does not answer.
_LONGEST = 2.0
_MOST_BYTES = 1 << 20
#: Facts that are not the environment's.
_NOT_THE_ENVIRONMENTS = ("env.", "driver.", "node.", "xid.", "config.", "log.")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of an environment in full."""

    verdict: FullVerdict | None
    why: str = ""
    """Why there is none."""


def folder_of(named: Path | None, reports: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The folder of verdicts: the one that is named, $ATTN_DOCTOR_VERDICTS, or the one in the folder of reports."""
    if named is not None:
        return named
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    return None if reports is None else reports / WITHIN


def find(folder: Path, prefix: Path, compute_capability: tuple[str, ...] | None = None) -> Known:
    """The verdict on the environment in the folder `prefix`. `compute_capability`: of the GPUs here; None: not known.

    Takes two seconds at most.
    """
    found = _in_time(lambda: _find(folder, prefix, compute_capability))
    return found or Known(verdict=None, why=f"{folder} did not answer within {_LONGEST:.0f} s")


def _find(folder: Path, prefix: Path, here: tuple[str, ...] | None) -> Known:
    content = content_key(prefix)
    if not content:
        return Known(verdict=None, why="the environment contains no distribution")
    try:
        files = sorted(folder.glob(f"{content}.*.json"))
    except OSError:
        files = []
    found, mistrusted = [], ""
    for file in files:
        mistrusted = others_who_write(file)
        if mistrusted:
            continue
        with contextlib.suppress(OSError, ValueError):
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as opened:
                one = full_verdict_v1.loads(opened.read(_MOST_BYTES))
            if one.content == content:
                found.append(one)
    alike = [one for one in found if here is None or one.compute_capability == here]
    if alike:
        return Known(verdict=max(alike, key=lambda one: (one.ill, one.created)))
    if found:
        gpus = ", ".join(sorted({" ".join(one.compute_capability) or "none" for one in found}))
        return Known(verdict=None, why=f"examined in full only with other GPUs (compute capability {gpus})")
    if mistrusted:
        return Known(verdict=None, why=f"a verdict is there and does not count: {mistrusted}")
    return Known(verdict=None, why="no full examination of it is known")


def of_report(report: Report) -> FullVerdict | None:
    """The verdict to keep of a report; None when it is not of a full examination of what is really there."""
    identity = report.identity
    partial = report.quick or report.assumed or report.limits or report.failure or report.own_faults
    if report.command != "check" or partial or identity is None or report.exit_status not in (0, 1):
        return None
    content = content_key(Path(identity.environment.prefix))
    if not content:
        return None
    findings = [one for one in report.diagnosis.findings if one.accepted is None and _of_environment(one)]
    return FullVerdict(
        content=content,
        node=identity.node.name,
        created=report.created,
        prefix=identity.environment.prefix,
        compute_capability=identity.cohort.compute_capability,
        exit_status=int(any(one.severity is Severity.ERROR for one in findings)),
        findings=tuple(FullFinding(id=one.id, severity=one.severity.value, title=one.title) for one in findings),
        doctor_version=report.doctor_version,
    )


def _of_environment(finding: Finding) -> bool:
    """True for what other nodes with the same environment have as well: not a sick GPU, a variable, a driver, or a
    configuration that somebody passed.
    """
    names = (str(fact.name) for fact in finding.evidence)
    return finding.id not in OF_ONE_NODE and not any(name.startswith(_NOT_THE_ENVIRONMENTS) for name in names)


def file_name(verdict: FullVerdict) -> str:
    """`<content>.sm90.json`."""
    gpus = "-".join(f"sm{one.replace('.', '')}" for one in verdict.compute_capability)
    return f"{verdict.content}.{''.join(c for c in gpus if c.isalnum() or c == '-') or 'no-gpu'}.json"


def _in_time(look: Callable[[], _T]) -> _T | None:
    """The answer, or None after two seconds: a dead file server must not hold the job that waits for it."""
    answers: list[_T] = []
    # A daemon: the process ends without it.
    reader = threading.Thread(target=lambda: answers.append(look()), daemon=True)
    reader.start()
    reader.join(_LONGEST)
    return answers[0] if answers else None
