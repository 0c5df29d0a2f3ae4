"""The nodes of a Ray cluster, and the command that runs on them. Ray is imported only by its own Python, never here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet.nodeset import NAME
from attn_doctor.machine.streaming import output_of

_SCRIPT = Path(__file__).parent.parent / "patient" / "ray_nodes.py"
_SOON = 90.0


def head(address: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The first words of a command for a Ray cluster; `list` or `run …` follow.

    Raises BadInput when Ray is not installed, or when no cluster exists at the address.
    """
    where = address or environment.get("RAY_ADDRESS") or "auto"
    if where == "local" or where.startswith(("http://", "https://", "-")):
        raise BadInput(
            "that is no address of a running Ray cluster",
            about=f"{'--address' if address else 'RAY_ADDRESS'} {where}",
            hint="Write HOST:PORT of its head (port 6379 by default), or auto on one of its nodes. None is started.",
        )
    return (_python(environment), str(_SCRIPT), "--address", where)


def nodes(
    asking: tuple[str, ...], *, among: tuple[str, ...] | None = None, expected: tuple[str, ...] = ()
) -> dict[str, str]:
    """Node -> why it cannot be used, empty when it can.

    The nodes are those in `among`; without it, all live nodes and the dead ones in `expected`. Raises BadInput when no
    cluster answers.
    """
    try:
        found = json.loads(output_of((*asking, "list"), timeout=_SOON).strip().splitlines()[-1])
    except (AttnDoctorError, ValueError, IndexError) as error:
        said = error.what if isinstance(error, AttnDoctorError) else "its answer is not readable"
        raise BadInput(
            f"no Ray cluster answers: {' '.join(said.split())[-400:]}",
            about=f"--address {asking[-1]}",
            hint="Run this on a node of the cluster (see `ray status`), with the Ray and Python that it has.",
        ) from None
    known = {name: str(why) for name, why in found.items() if NAME.match(name)}
    if among is None:
        return {name: why for name, why in known.items() if not why or name in expected}
    return {name: known.get(name, "Ray knows no such node") for name in among}


def _python(environment: Mapping[str, str]) -> str:
    program = shutil.which("ray", path=environment.get("PATH"))
    beside = [Path(program).parent / name for name in ("python", "python3")] if program else []
    for python in beside:  # the active environment's, as srun and clush are taken from PATH
        if python.exists():
            return str(python)
    found = importlib.util.find_spec("ray")
    if found is not None and found.origin is not None:
        return sys.executable
    raise BadInput(
        "Ray is not installed in this environment",
        about="fleet run --engine ray",
        hint="Activate the environment that the Ray cluster runs in. attn-doctor neither needs Ray nor installs it.",
    )
