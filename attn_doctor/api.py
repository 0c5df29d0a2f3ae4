"""The Python API: `attn_doctor.check()`, `attn_doctor.trace()`, `attn_doctor.explain()`, `attn_doctor.plan()`.

Each does what the command of its name does, and returns the report instead of printing it. Options that exist only in
the command are about printing or fleets. docs/api.md lists what is stable.
"""

from __future__ import annotations

import html
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attn_doctor.cli import door
from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1, stack_v1
from attn_doctor.machine import faults
from attn_doctor.machine.files import absolute
from attn_doctor.model.findings import Finding, OpenQuestion, Severity
from attn_doctor.model.report import Report
from attn_doctor.model.stack import StackAnswer, StackPlan
from attn_doctor.report import picker
from attn_doctor.report.renderer import OF_COMMAND, PLAN, Manner

AnyPath = str | os.PathLike[str]


class Examination:
    """The result of an examination. print() and the last line of a notebook's cell show the report."""

    def __init__(self, report: Report) -> None:
        self.report = report
        """The report as attn-doctor holds it; its attributes may change in any release, `to_json()` does not."""

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 healthy, 1 findings, 3 could not examine."""
        return self.report.exit_status

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, worst first."""
        return self.report.diagnosis.findings

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The recipes that could not be decided, and why."""
        return self.report.diagnosis.open_questions

    def to_json(self) -> dict[str, Any]:
        """The report in the format attn-doctor/report/v1, as `--json` writes it."""
        return report_v1.to_json(self.report)

    def text(self, *, verbose: bool = False) -> str:
        """The report as the command prints it."""
        return self._rendered("text", verbose=verbose)

    def markdown(self, *, verbose: bool = False, masked: bool = True) -> str:
        """The report for an issue; `masked`: without names of users and hosts."""
        return self._rendered("markdown", verbose=verbose, masked=masked)

    def _rendered(self, form: str, *, verbose: bool, masked: bool = True) -> str:
        stream = io.StringIO()
        picked = picker.pick(OF_COMMAND[self.report.command], form)
        picked.write(self.report, stream, Manner(verbose=verbose, masked=masked))
        return stream.getvalue()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        ids = ", ".join(finding.id for finding in self.findings)
        return f"<attn-doctor {self.report.command}: exit status {self.exit_status}; {ids or 'nothing found'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


class Planned:
    """The answer to `plan()`. print() and the last line of a notebook's cell show it."""

    def __init__(self, answer: StackAnswer) -> None:
        self.answer = answer
        """As attn-doctor holds it; its attributes may change in any release, `to_json()` does not."""

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 a plan, 1 none."""
        return self.answer.exit_status

    @property
    def plans(self) -> tuple[StackPlan, ...]:
        """The plans, best first; empty when nothing fulfils every want."""
        return self.answer.plans

    def to_json(self) -> dict[str, Any]:
        """The answer in the format attn-doctor/stack/v1, as `plan --json` writes it."""
        return stack_v1.to_json(self.answer)

    def rendered(self, form: str = "text") -> str:
        """The answer as the command writes it: text, requirements, uv, docker, conda or json."""
        stream = io.StringIO()
        picker.pick(PLAN, form).write(self.answer, stream, Manner())
        return stream.getvalue()

    def __str__(self) -> str:
        return self.rendered()

    def __repr__(self) -> str:
        return f"<attn-doctor plan: exit status {self.exit_status}; {len(self.plans)} plans>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def check(
    *,
    python: AnyPath | None = None,
    lock: AnyPath | None = None,
    quick: bool = False,
    samples: bool = True,
    configs: Iterable[AnyPath] = (),
    gpu: str | None = None,
    assume: Iterable[str] = (),
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    recipes: Iterable[AnyPath] = (),
    accept: AnyPath | None = None,
    fail_on: str = "error",
    strict: bool = False,
    timeout: float = 60.0,
) -> Examination:
    """Examines an environment and this node, as `attn-doctor check` does: other processes import and run, not this one.

    Without `python` it examines the interpreter that calls it. With `lock`, a lock file or manifest, it judges what
    that would install, and no environment. `timeout` is in seconds, for each import and sample.
    Raises attn_doctor.AttnDoctorError where nothing could be examined, its kind BadInput for a wrong argument.
    """
    if lock is not None:
        from attn_doctor.workflows.check_lock import CheckLockRequest, check_lock

        if python is not None or configs or quick or strict:
            raise BadInput(
                "with a lock file no environment is looked at",
                about="attn_doctor.check(lock=…) with python, configs, quick or strict",
                hint="Leave these out.",
            )
        foreseen = CheckLockRequest(
            file=Path(lock),
            gpu=gpu,
            assumptions=_words(assume),
            only=_words(only),
            skip=_words(skip),
            recipes=_paths(recipes),
            accept=_path(accept),
            fail_on=_severity(fail_on),
        )
        with faults.collected():
            return Examination(check_lock(foreseen))
    from attn_doctor.workflows.check import CheckRequest
    from attn_doctor.workflows.check import check as run

    request = CheckRequest(
        python=_python(python),
        as_module=True,
        quick=quick,
        samples=samples,
        timeout=timeout,
        configs=_paths(configs),
        gpu=gpu,
        assumptions=_words(assume),
        only=_words(only),
        skip=_words(skip),
        recipes=_paths(recipes),
        accept=_path(accept),
        fail_on=_severity(fail_on),
        strict=strict,
    )
    with faults.collected():
        return Examination(run(request))


def trace(
    *what: str,
    hf: AnyPath | None = None,
    arguments: Iterable[str] = (),
    python: AnyPath | None = None,
    dtype: str | None = None,
    autocast: str | None = None,
    attn: str | None = None,
    backward: bool = False,
    calls: int | None = None,
    gpu: str | None = None,
    rules: str = "auto",
    semantics: bool = False,
    compile: bool = False,  # noqa: A002
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    recipes: Iterable[AnyPath] = (),
    fail_on: str = "error",
    timeout: float = 300.0,
) -> Examination:
    """Runs a model once, in a process of its own, as `attn-doctor trace` does, and finds what changed a dtype.

    `what` is "file.py:factory", "pkg.module:factory", or a program and its arguments; `hf` names a config instead.
    `semantics`: finds instead which token reaches which, in a small copy with random weights.
    `compile`: compares instead its attention regions in eager mode with torch.compile.
    `timeout` is in seconds, for the whole run. Without `python` it runs in the interpreter that calls this; for a model
    that this process holds, there is attn_doctor.watch().
    Raises attn_doctor.AttnDoctorError where nothing could be run, its kind BadInput for a wrong argument.
    """
    from attn_doctor.workflows.trace import trace as run
    from attn_doctor.workflows.traced_program import TraceRequest

    request = TraceRequest(
        what=what,
        hf=_path(hf),
        arguments=_words(arguments),
        python=_python(python),
        as_module=True,
        dtype=dtype,
        autocast=autocast,
        attn=attn,
        backward=backward,
        calls=calls,
        gpu=gpu,
        rules=rules,
        semantics=semantics,
        compile=compile,
        only=_words(only),
        skip=_words(skip),
        recipes=_paths(recipes),
        fail_on=_severity(fail_on),
        timeout=timeout,
    )
    with faults.collected():
        return Examination(run(request))


def explain(
    *logs: AnyPath,
    text: str | None = None,
    here: bool = False,
    python: AnyPath | None = None,
    facts: AnyPath | None = None,
    gpu: str | None = None,
    assume: Iterable[str] = (),
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    recipes: Iterable[AnyPath] = (),
    fail_on: str = "error",
    strict: bool = False,
) -> Examination:
    """Explains the errors in logs, as `attn-doctor explain` does; `text` is the words of an error that is at hand.

    Nothing of this machine is looked at unless `here` or `python` says that the logs are from it; `facts` is a report
    of another machine (`check --json`).
    Raises attn_doctor.AttnDoctorError where nothing could be read, its kind BadInput for a wrong argument.
    """
    from attn_doctor.workflows.explain import ExplainRequest
    from attn_doctor.workflows.explain import explain as run

    request = ExplainRequest(
        logs=tuple(os.fspath(one) for one in logs),
        texts=() if text is None else (text,),
        here=here,
        python=_python(python),
        as_module=True,
        facts_file=_path(facts),
        gpu=gpu,
        assumptions=_words(assume),
        only=_words(only),
        skip=_words(skip),
        recipes=_paths(recipes),
        fail_on=_severity(fail_on),
        strict=strict,
    )
    with faults.collected():
        return Examination(run(request))


def plan(
    *wants: str,
    gpu: str | None = None,
    driver: str | None = None,
    python: str | None = None,
    glibc: str | None = None,
    machine: str | None = None,
    cuda: str | None = None,
    torch_backend: str | None = None,
    indexes: Iterable[str] = (),
    find_links: Iterable[str] = (),
    prove: bool = False,
    offline: bool = False,
) -> Planned:
    """Says which releases of the wanted packages go together, as `attn-doctor plan` does. Installs nothing.

    uv, or else pip, asks the package index that it is configured with, unless `offline`.
    Raises attn_doctor.AttnDoctorError where it could not be asked, its kind BadInput for a wrong argument.
    """
    from attn_doctor.workflows.plan import PlanRequest
    from attn_doctor.workflows.plan import plan as run

    request = PlanRequest(
        wants=wants,
        gpu=gpu,
        driver=driver,
        python=python,
        glibc=glibc,
        machine=machine,
        cuda=cuda,
        torch_backend=torch_backend,
        indexes=_words(indexes),
        find_links=_words(find_links),
        prove=prove,
        offline=offline,
    )
    with faults.collected():
        return Planned(run(request))


def _python(named: AnyPath | None) -> str | None:
    return None if named is None else door.python(os.fspath(named))


def _path(named: AnyPath | None) -> Path | None:
    return None if named is None else absolute(Path(named))


def _paths(named: Iterable[AnyPath]) -> tuple[Path, ...]:
    return tuple(absolute(Path(one)) for one in ((named,) if isinstance(named, (str, os.PathLike)) else named))


# One string is a list of one: iterating over its letters is never intended.


def _words(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _severity(text: str) -> Severity:
    from attn_doctor.errors import BadInput

    try:
        return Severity(text)
    except ValueError:
        known = ", ".join(severity.value for severity in Severity)
        raise BadInput("there is no such severity", about=f"fail_on={text!r}", hint=f"One of {known}.") from None
