"""Exit statuses, the same for every command. "Nothing found" and "could not look" never share a number."""

from __future__ import annotations

from enum import Enum, IntEnum

from attn_doctor.model.findings import Diagnosis, Severity


class Status(IntEnum):
    """Exit status of the attn-doctor process."""

    HEALTHY = 0
    FOUND = 1
    USAGE = 2
    COULD_NOT_EXAMINE = 3
    FIX_UNDONE = 4
    UNDO_FAILED = 5
    NOT_KEPT = 6
    OUR_BUG = 70
    INTERRUPTED = 130
    TERMINATED = 143


class ExitStyle(str, Enum):
    """Which program's conventions the exit status follows."""

    DEFAULT = "default"
    NAGIOS = "nagios"
    NPD = "npd"


def status_of(
    diagnosis: Diagnosis, *, fail_on: Severity, strict: bool, own_faults: bool = False, nothing: str = ""
) -> Status:
    """The exit status for a diagnosis: findings at or above `fail_on` fail it; accepted findings do not.

    `own_faults`: a part of attn-doctor failed, so its facts are unknown. `nothing`: the reason why there was nothing to
    examine; the absence of findings then does not mean healthy.
    """
    gates = any(finding.severity.rank <= fail_on.rank for finding in diagnosis.findings if finding.accepted is None)
    if gates:
        return Status.FOUND
    unknown = nothing or (strict and (diagnosis.open_questions or own_faults))
    return Status.COULD_NOT_EXAMINE if unknown else Status.HEALTHY


def styled(status: int, style: ExitStyle, *, worst: Severity = Severity.ERROR) -> int:
    """The exit status in the convention of another program; `worst` is the gravest severity among the findings.

    Nagios, Icinga and facebookresearch/gcm: 0 OK, 1 warning, 2 critical, 3 unknown
    (https://nagios-plugins.org/doc/guidelines.html#AEN78). Kubernetes' node-problem-detector: 0 OK, 1 not OK, 2 or more
    unknown (https://github.com/kubernetes/node-problem-detector/blob/master/docs/custom_plugin_monitor.md). A finding
    that does not fail the command is OK in each of them: a warning about an unused library must not turn a thousand
    nodes yellow.
    """
    match style:
        case ExitStyle.DEFAULT:
            return status
        case ExitStyle.NAGIOS:
            if status == Status.FOUND:
                return 2 if worst is Severity.ERROR else 1
            return 0 if status == Status.HEALTHY else 3
        case ExitStyle.NPD:
            return status if status in (Status.HEALTHY, Status.FOUND) else 2
