"""`prometheus`: metrics for node_exporter's textfile collector.

Metrics of a single node have no node label: the scraper adds `instance`. Metrics of a fleet name only nodes with
problems, so that the number of series stays small.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import IO, TYPE_CHECKING

from attn_doctor.machine.printable import harmless
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report
from attn_doctor.report.renderer import CHECK, FLEET, Manner, Media, Page, Renderer
from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.kernels import KernelTrials

_PACKAGES = ("torch", "triton", "flash-attn", "xformers", "flash-linear-attention", "transformers")


def text(report: Report) -> str:
    """The metrics of one node."""
    lines: list[str] = []
    facts = report.identity.fingerprint.facts if report.identity else {}
    info = {
        "version": report.doctor_version,
        **{name.replace("-", "_"): facts.get(f"packages.{name}") for name in _PACKAGES},
        "gpu": facts.get("gpu"),
        "driver": facts.get("driver"),
        "environment": report.identity.environment.id if report.identity else "",
        "fingerprint": report.identity.fingerprint.sha256[:16] if report.identity else "",
        "critical": report.identity.fingerprint.critical[:16] if report.identity else "",
    }
    labels = {name: value if isinstance(value, str) else "" for name, value in info.items()}
    _metric(lines, "info", "What was examined, by which attn-doctor.", [(labels, 1.0)])
    gating = [one for one in report.diagnosis.findings if one.accepted is None]
    counts = [({"severity": each.value}, float(sum(one.severity is each for one in gating))) for each in Severity]
    _metric(lines, "findings", "Findings that were not accepted.", counts)
    each_once = {(one.id, one.severity.value) for one in gating}
    _metric(
        lines,
        "finding",
        "One for each finding that was not accepted.",
        [({"id": id_, "severity": severity}, 1.0) for id_, severity in sorted(each_once)],
    )
    _metric(lines, "open_questions", "What could not be decided.", [({}, float(len(report.diagnosis.open_questions)))])
    _metric(lines, "exit_code", "0 healthy, 1 findings, 3 could not examine.", [({}, float(report.exit_status))])
    if report.kernels is not None:
        _of_kernels(lines, report.kernels)
    seconds = report.identity.volatile.get("seconds") if report.identity else None
    if isinstance(seconds, (int, float)):
        _metric(lines, "run_duration_seconds", "How long the examination took.", [({}, float(seconds))])
    created = datetime.fromisoformat(report.created).timestamp()
    _metric(lines, "last_run_timestamp_seconds", "When it was made.", [({}, created)])
    return "\n".join(lines) + "\n"


def _of_kernels(lines: list[str], trials: KernelTrials) -> None:
    """Metrics of --kernels: trials by outcome, including zeros, so that an alert on `wrong` always has a series."""
    # Without it, a node whose kernels could not be run would look like one without wrong kernels.
    ran = float(trials.ran)
    _metric(lines, "kernels_ran", "1 where --kernels ran kernels, 0 where it could run none.", [({}, ran)])
    counts = {**trials.counts, "not_run": trials.without_result}
    samples = [({"outcome": word}, float(number)) for word, number in counts.items()]
    _metric(lines, "kernel_trials", "Trials of attention kernels on the GPUs, by what came of them.", samples)
    matmul = {gpu.index: gpu.half_matmul for gpu in trials.gpus}
    copy = {gpu.index: gpu.copy for gpu in trials.gpus}
    for name, help_, reached in (
        ("gpu_matmul_tflops", "A large matrix product in half precision, TFLOP/s.", matmul),
        ("gpu_copy_gbs", "A large copy on the GPU, GB/s.", copy),
    ):
        samples = [({"gpu": gpu}, float(number)) for gpu, number in reached.items() if number is not None]
        if samples:
            _metric(lines, name, help_, samples)
    xids = [
        ({"gpu": gpu.index, "xid": str(number)}, float(count))
        for gpu in trials.gpus
        for number, count in Counter(one.number for one in gpu.heard.seen).items()
    ]
    if xids:
        _metric(lines, "gpu_xids", "Xid events that a GPU reported while kernels ran.", xids)


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.model.fleet import State

    lines: list[str] = []
    _metric(lines, "fleet_info", "What made this.", [({"version": __version__}, 1.0)])
    _metric(
        lines,
        "fleet_exit_status",
        "0 fit, 1 a node fails or drifts critically, 3 missing or unreadable.",
        [({}, float(verdict.exit_status))],
    )
    counts = [({"state": state.value}, float(len(verdict.nodes_in(state)))) for state in State]
    _metric(lines, "fleet_nodes", "Nodes by what they come to.", counts)
    unfit = [({"node": node, "state": state.value}, 1.0) for node, state in verdict.states.items()]
    unfit = [one for one in unfit if one[0]["state"] != State.FIT.value]
    _metric(lines, "fleet_node_state", "Nodes that are not fit.", unfit)
    found: dict[tuple[str, str], set[str]] = {}
    for one in (*verdict.failing, *verdict.warned):
        found.setdefault((one.finding.id, one.finding.severity), set()).update(one.nodes)
    totals = [
        ({"finding": name, "severity": severity}, float(len(nodes)))
        for (name, severity), nodes in sorted(found.items())
    ]
    _metric(lines, "fleet_finding_nodes", "Nodes on which each finding was found.", totals)
    stream.write("\n".join(lines) + "\n")


def _metric(lines: list[str], name: str, help_: str, samples: Iterable[tuple[dict[str, str], float]]) -> None:
    lines += [f"# HELP attn_doctor_{name} {help_}", f"# TYPE attn_doctor_{name} gauge"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(said)}"' for key, said in labels.items())
        lines.append(f"attn_doctor_{name}{f'{{{inside}}}' if inside else ''} {value:.17g}")


def _escaped(said: str) -> str:
    said = harmless(said).encode(errors="replace").decode()
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _check(report: Report, stream: IO[str], manner: Manner) -> None:
    stream.write(text(report))


RENDERER = Renderer(
    "prometheus",
    suffixes=(".prom",),
    media=Media.PROGRAM,
    collected=True,
    pages=(Page(CHECK, _check), Page(FLEET, _fleet)),
)
