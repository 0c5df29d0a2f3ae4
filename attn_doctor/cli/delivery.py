"""Where the report of a `check` goes: standard output, a file, a folder of reports, metrics; and the exit status.

What cannot be written in one place is still written in the others, and the report of an examination that nobody could
keep goes to standard output.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from attn_doctor.cli.shared import put
from attn_doctor.errors import AttnDoctorError, NotKept
from attn_doctor.formats import full_verdict_v1, report_v1
from attn_doctor.machine import faults, files
from attn_doctor.model import fingerprint
from attn_doctor.model.exit_status import ExitStyle, Status, styled
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.model.identity import Cohort, EnvironmentName, Identity, NodeName
from attn_doctor.model.report import Examined, Failure, Report
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.report import picker
from attn_doctor.report.picker import Picked
from attn_doctor.report.renderer import CHECK, Manner, Media
from attn_doctor.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a person asked for."""

    form: str | None
    """The format's name. None: as `output` is named; nothing is printed where that is a folder."""
    output: str | None
    prometheus: Path | None = None
    style: ExitStyle = ExitStyle.DEFAULT
    exit_zero: bool = False
    verbose: bool = False
    masked: bool = True
    fail_on: Severity = Severity.ERROR
    verdicts: Path | None = None
    """The folder for the verdict of a full examination."""

    @property
    def folder(self) -> Path | None:
        """The folder of reports, when --output names one: it is there, or its name ends with a slash."""
        if self.output is None or not (self.output.endswith("/") or Path(self.output).is_dir()):
            return None
        return Path(self.output)

    @property
    def picked(self) -> Picked[Report]:
        """The format of what is printed, or written into a file."""
        return picker.pick(CHECK, self.form, output=None if self.folder is not None else self.output)

    @property
    def tells_failures(self) -> bool:
        """Somebody collects reports: one that says why there is no examination beats silence."""
        collected = self.picked.renderer.collected
        return collected or self.exit_zero or self.folder is not None or self.prometheus is not None

    @property
    def told_in_full(self) -> bool:
        """A failure's report reaches whoever collects: with --exit-zero it is the verdict then, as any other."""
        return self.tells_failures and (self.folder is not None or self._for_a_program)

    @property
    def _for_a_program(self) -> bool:
        return self.picked.renderer.media is Media.PROGRAM

    def prepare(self) -> None:
        """Raises BadInput when something could not be written, before anything is examined for it."""
        _ = self.picked
        if self.folder is not None:
            with contextlib.suppress(NotKept):  # the report is printed then; `deliver` says why
                self._check_folder(self.folder)
        elif self.output is not None:
            files.check_output(Path(self.output))
        if self.prometheus is not None:
            files.check_output(self.prometheus, flag="--prometheus")

    def deliver(self, report: Report, *, mine: bool = True, outdates: str = "") -> None:
        """Writes the report wherever it is wanted. `mine`: found by this process and not by another rank's.

        `outdates` is the id of the failure that this report makes obsolete. Raises AttnDoctorError in the end when
        something could not be written.
        """
        failed: list[AttnDoctorError] = []
        if self.folder is None or self.form is not None:
            with _kept(failed):
                self._print(report, None if self.folder is not None or self.output is None else Path(self.output))
        if self.folder is not None and mine and report.identity is not None:
            with _kept(failed):
                self._check_folder(self.folder)
                files.replace_file(self.folder / report.identity.file_name, report_v1.line(report), chosen=True)
                self._forget(report, outdates)
            if failed and self.form is None:
                sys.stdout.write(report_v1.line(report))  # the examination is not lost with the disk
        if self.verdicts is not None and mine:
            with _kept(failed):
                self._keep_verdict(report, self.verdicts)
        if self.prometheus is not None:
            metrics = io.StringIO()
            write = partial(picker.pick(CHECK, "prometheus").write, report, metrics, Manner())
            with _kept(failed):
                faults.survive("metrics", write, lambda _reason: None)
                if metrics.getvalue():  # else what was there grows old, which its own timestamp tells
                    files.replace_file(self.prometheus, metrics.getvalue(), mode=0o644)
        if failed:
            first = failed[0]
            about = "\n".join(one.about for one in failed)
            refused = NotKept if isinstance(first, NotKept) else AttnDoctorError
            raise refused(first.what, about=about, hint=first.hint)

    def _keep_verdict(self, report: Report, folder: Path) -> None:
        """Writes what this full examination came to, for those who look at files alone."""
        from attn_doctor.workflows import full_verdicts

        verdict = full_verdicts.of_report(report)
        if verdict is not None:
            files.check_folder(folder, make=True, flag="--verdicts")
            text = full_verdict_v1.dumps(verdict)
            files.replace_file(folder / full_verdicts.file_name(verdict), text, chosen=True, mode=0o644)

    def _check_folder(self, folder: Path) -> None:
        files.check_folder(folder, make=(self.output or "").endswith("/"), flag="--output")

    def ends_with(self, report: Report) -> int:
        """The exit status for a report that was delivered."""
        if self.exit_zero:
            return 0
        gating = [one.severity for one in report.diagnosis.findings if one.accepted is None]
        worst = min(gating, key=lambda severity: severity.rank, default=Severity.ERROR)
        return styled(report.exit_status, self.style, worst=worst)

    def _print(self, report: Report, output: Path | None) -> None:
        if report.failure is None or self._for_a_program:
            manner = Manner(verbose=self.verbose, masked=self.masked, fail_on=self.fail_on)
            put(report, self.picked, output=output, manner=manner)

    def _forget(self, report: Report, outdates: str) -> None:
        """Takes an earlier failure of this environment out of the folder, now that it was examined."""
        if self.folder is None or report.identity is None or not outdates:
            return
        environment = replace(report.identity.environment, id=outdates)
        earlier = replace(report.identity, environment=environment)
        if report.failure is None and earlier.file_name != report.identity.file_name:
            with contextlib.suppress(OSError):
                (self.folder / earlier.file_name).unlink(missing_ok=True)


def failed_report(error: Exception, node: NodeName, *, environment: str, asked: str, quick: bool) -> Report:
    """The report of an examination that did not come about. `environment` is its id, `asked` the interpreter asked."""
    if isinstance(error, AttnDoctorError):
        failure, status = Failure(what=error.what, about=error.about, hint=error.hint), error.exit_status
    else:
        status = Status.OUR_BUG
        failure = Failure(
            what=f"a bug of attn-doctor: {type(error).__name__}: {error}"[:500],
            hint="Please report it with the log that is named on standard error there.",
        )
    return Report(
        command="check",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=Examined(python=asked, version="", environment="", because=""),
        quick=quick,
        assumed=(),
        diagnosis=Diagnosis(),
        exit_status=int(status),
        facts=FactSet(),
        identity=Identity(
            node=node,
            environment=EnvironmentName(id=environment, prefix=str(_folder_of(Path(asked)))),
            cohort=Cohort(gpu=(), compute_capability=(), gpu_count=None, partition=None, environment=environment),
            fingerprint=fingerprint.fingerprint_of({}),
        ),
        failure=failure,
    )


def _folder_of(python: Path) -> Path:
    """The environment that an interpreter is most likely of; it cannot be asked."""
    return python.parent.parent if python.parent.name == "bin" else python


@contextlib.contextmanager
def _kept(failed: list[AttnDoctorError]) -> Iterator[None]:
    try:
        yield
    except AttnDoctorError as error:
        failed.append(error)
    except OSError as error:
        failed.append(
            AttnDoctorError(
                f"the report cannot be written: {error.strerror}",
                about=str(error.filename or "standard output"),
                hint="Make room there, or name another place.",
            )
        )
