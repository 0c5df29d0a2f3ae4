"""The fleet's verdict as Prometheus text, for the textfile collector of a node that runs the merge.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ — names of nodes only where something is wrong
with them, so that the number of series stays small.
"""

from __future__ import annotations

from typing import IO

from attn_doctor.machine.printable import harmless
from attn_doctor.model.fleet import FleetVerdict, State


def write(verdict: FleetVerdict, stream: IO[str], *, doctor_version: str) -> None:
    """Writes it."""
    metric = "attn_doctor_fleet"
    _head(stream, f"{metric}_info", "What made this.")
    stream.write(f"{metric}_info{{version={_quoted(doctor_version)}}} 1\n")
    _head(stream, f"{metric}_exit_status", "0 fit, 1 a node fails or drifts critically, 3 missing or unreadable.")
    stream.write(f"{metric}_exit_status {verdict.exit_status}\n")
    _head(stream, f"{metric}_nodes", "Nodes by what they come to.")
    for state in State:
        stream.write(f"{metric}_nodes{{state={_quoted(state.value)}}} {len(verdict.nodes_in(state))}\n")
    _head(stream, f"{metric}_node_state", "Nodes that are not fit.")
    for node, state in verdict.states.items():
        if state is not State.FIT:
            stream.write(f"{metric}_node_state{{node={_quoted(node)},state={_quoted(state.value)}}} 1\n")
    _head(stream, f"{metric}_finding_nodes", "Nodes on which each finding was found.")
    totals: dict[tuple[str, str], set[str]] = {}
    for one in (*verdict.failing, *verdict.warned):
        totals.setdefault((one.finding.id, one.finding.severity), set()).update(one.nodes)
    for (name, severity), nodes in sorted(totals.items()):
        stream.write(f"{metric}_finding_nodes{{finding={_quoted(name)},severity={_quoted(severity)}}} {len(nodes)}\n")


def _head(stream: IO[str], name: str, words: str) -> None:
    stream.write(f"# HELP {name} {words}\n# TYPE {name} gauge\n")


def _quoted(text: str) -> str:
    escaped = harmless(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
