"""`attn-doctor status`: the result of this node's last report, for hooks with a limit of five seconds. Examines
nothing.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from attn_doctor.cli.declare import Option
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Lang, span
from attn_doctor.cli.shared import put
from attn_doctor.model.exit_status import ExitStyle, styled
from attn_doctor.probe.host.node_names import node_name
from attn_doctor.report import picker, standing
from attn_doctor.report.renderer import STATUS
from attn_doctor.workflows.status import USUAL, StatusRequest, in_full
from attn_doctor.workflows.status import status as read_reports


@guarded
def status(
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            readable=False,  # an unreadable report means unknown: status 3, not wrong usage
            metavar="FILE|DIR",
            help=f"A report, or the folder of `check --output`; else $ATTN_DOCTOR_REPORTS, else {USUAL}.",
        ),
    ] = None,
    python: Annotated[
        Path | None,
        Option(
            readable=False,
            metavar="PATH",
            help="Of this environment alone, what its last full examination came to (--verdicts); reads no report.",
        ),
    ] = None,
    verdicts: Annotated[
        Path | None,
        Option(
            readable=False,
            metavar="DIR",
            help="Folder of full verdicts, for reports of files alone. Default: $ATTN_DOCTOR_VERDICTS, else verdicts/ "
            "in the folder of reports.",
        ),
    ] = None,
    max_age: Annotated[
        str, Option(metavar="SPAN", help="What is older is not known to be healthy: 90s, 30m, 6h, 7d.")
    ] = "24h",
    json_: Annotated[bool, Option("--json", help="As one JSON object of at most 4 KiB.")] = False,
    lang: Lang = None,
    exit_style: Annotated[
        ExitStyle, Option(help="Whose exit statuses: ours, Nagios', node-problem-detector's.")
    ] = ExitStyle.DEFAULT,
) -> int:
    """Say what the last report of this node comes to; examines nothing and imports nothing heavy.

    The first line has at most 80 characters. Of a folder, all reports of this node count.

    Exit status: 0 healthy, 1 findings, 3 not known: no report, too old, damaged, or the node was restarted since.
    """
    longest = span(max_age, flag="--max-age")
    if python is not None:
        known = in_full(python, verdicts)
        alone = standing.in_full(known.verdict, known.why, environment=str(python))
        told = standing.NodeStanding(node_name(os.environ).name, (alone,))
        put(told, picker.pick(STATUS, as_json=json_))
        return styled(told.worst, exit_style)
    result = read_reports(StatusRequest(place=from_, verdicts=verdicts))
    now = datetime.now(timezone.utc)
    found = tuple(
        standing.unreadable(str(one.file), one.trouble)
        if one.report is None
        else standing.weigh(
            one.report,
            file=str(one.file),
            now=now,
            max_age=longest,
            boot_id=one.boot_id,
            full=one.full.verdict if one.full is not None else None,
            no_full=one.full.why if one.full is not None else "",
        )
        for one in result.stored
    )
    # A report that was named may be of another node: then it is that node's line.
    of = next((one.node for one in found if one.node), result.node) if len(found) == 1 else result.node
    told = standing.NodeStanding(of, found, nothing=result.nothing)
    put(told, picker.pick(STATUS, as_json=json_))
    return styled(told.worst, exit_style)
