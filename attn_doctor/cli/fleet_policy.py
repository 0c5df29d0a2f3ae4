"""`attn-doctor fleet policy`: prints what gates, what is lived with, what is not compared, and thresholds."""

from __future__ import annotations

import sys

from attn_doctor.cli.fleet_answer import AcceptFile
from attn_doctor.cli.guard import guarded
from attn_doctor.formats import policy_toml
from attn_doctor.machine.printable import harmless
from attn_doctor.model.exit_status import Status
from attn_doctor.model.policy import Policy
from attn_doctor.recipes.data import accepted


@guarded
def policy(accept_file: AcceptFile = None) -> int:
    """Print the policy by which nodes are judged, as a file for --accept: the built-in one, or a site's before it.

    Of several entries that fit, one for a partition counts first, then the longest pattern. What a policy does not
    say stays as it is built in.

    Exit status: 0 printed, 2 a wrong policy file.
    """
    held = accepted.policy(accept_file) if accept_file is not None else Policy()
    sys.stdout.write(harmless(policy_toml.dumps(held)))
    return Status.HEALTHY
