"""`attn-doctor mcp`: the commands as tools for agents."""

from __future__ import annotations

import importlib.util
from typing import Annotated

from attn_doctor.cli.declare import Option
from attn_doctor.cli.guard import guarded
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import Status


@guarded
def mcp(
    allow_fix: Annotated[
        bool, Option("--allow-fix", help="Carry out plans of safe steps without asking a person.")
    ] = False,
) -> int:
    """Offer check, trace, explain, plan and fix as tools to agents: a server of the Model Context Protocol that speaks
    over standard input and output, as an agent's program starts it.

    Needs the extra: pip install 'attn-doctor[mcp]'. A plan is carried out once a person says yes to it through the
    client; under --allow-fix that question is asked of unsafe steps alone.

    Exit status: 0 the client has gone, 2 wrong usage, or the extra is not there.
    """
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp.server.mcpserver") is None:
        raise BadInput(
            "the SDK of the Model Context Protocol is not there, or is older than 2",
            about="attn-doctor mcp",
            hint="pip install 'attn-doctor[mcp]', into the environment of attn-doctor.",
        )
    from attn_doctor.serving.server import make_server

    make_server(allow_fix=allow_fix).run("stdio")
    return Status.HEALTHY
