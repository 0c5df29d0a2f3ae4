"""`attn-doctor status`: what the last report of this node says, for hooks that have five seconds. Examines nothing."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from attn_doctor.cli.declare import Option
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import put
from attn_doctor.cli.span import span
from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.model.exit_status import ExitStyle, styled
from attn_doctor.model.identity import safe_name
from attn_doctor.probe.host.node_names import boot_id, node_name
from attn_doctor.report import picker, standing
from attn_doctor.report.renderer import STATUS

#: Where reports lie unless somebody says otherwise: `check --output /var/lib/attn-doctor/` puts them there.
USUAL = "/var/lib/attn-doctor"
#: More environments than any node has: a folder with more is not one of ours.
_MOST = 1000


@guarded
def status(
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            readable=False,  # what cannot be read is not known: 3, and no wrong usage
            metavar="FILE|DIR",
            help=f"A report, or the folder of `check --output`; else $ATTN_DOCTOR_REPORTS, else {USUAL}.",
        ),
    ] = None,
    max_age: Annotated[
        str, Option(metavar="SPAN", help="What is older is not known to be healthy: 90s, 30m, 6h, 7d.")
    ] = "24h",
    json_: Annotated[bool, Option("--json", help="As one JSON object of at most 4 KiB.")] = False,
    exit_style: Annotated[
        ExitStyle, Option(help="Whose exit statuses: ours, Nagios', node-problem-detector's.")
    ] = ExitStyle.DEFAULT,
) -> int:
    """Say what the last report of this node comes to; examines nothing and imports nothing heavy.

    The first line has at most 80 characters. Of a folder, all reports of this node count.

    Exit status: 0 healthy, 1 findings, 3 not known: no report, too old, damaged, or the node was restarted since.
    """
    longest = span(max_age, flag="--max-age")
    place = from_ or Path(os.environ.get("ATTN_DOCTOR_REPORTS") or USUAL)
    node = node_name(os.environ).name
    files, nothing = _files(place, node)
    now, boot = datetime.now(timezone.utc), boot_id()
    standings = []
    for file in files:
        try:
            report = report_v1.read(file)
        except BadInput as error:
            standings.append(standing.unreadable(str(file), error.what))
            continue
        here = report.identity is not None and report.identity.node.name == node
        if not here and file != place:
            other = report.identity.node.name if report.identity else "nobody knows which node"
            standings.append(standing.unreadable(str(file), f"the report is of {other}, not of this node"))
            continue
        standings.append(
            standing.weigh(report, file=str(file), now=now, max_age=longest, boot_id=boot if here else None)
        )
    found = tuple(standings)
    # A report that was named may be of another node: then it is that node's line.
    of = next((one.node for one in found if one.node), node) if len(found) == 1 else node
    told = standing.NodeStanding(of, found, nothing=nothing)
    put(told, picker.pick(STATUS, as_json=json_))
    return styled(told.worst, exit_style)


def _files(place: Path, node: str) -> tuple[list[Path], str]:
    """The reports of this node, and what to say when there is none."""
    try:
        if not place.is_dir():
            return ([place], "") if place.exists() else ([], f"there is no {place}")
        own = re.compile(re.escape(safe_name(node)) + r"\.[^.]+\.json")
        with os.scandir(place) as entries:
            found = sorted(entry.path for entry in entries if own.fullmatch(entry.name))
    except OSError as error:
        return [], f"{place} cannot be read: {error.strerror}"
    return [Path(file) for file in found[:_MOST]], f"no report of this node in {place}"
