"""The engine's command for `fleet run`: the site's own srun, clush or Ray starts `check` on every node.

Each flag is there because leaving it out lost reports in tests; docs/fleet.md tells which.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum

from attn_doctor.fleet.nodeset import fold

#: srun's -W counts from the first task that ends: above the longest legitimate run.
_AFTER_THE_FIRST = 15
#: Seconds between SIGTERM and SIGKILL for a doctor that hangs.
_KILL = 5
#: What an engine needs on top to start tasks, notice lost nodes, and end.
_ENGINE = 60.0
_AT_ONCE = 64
_CONNECT = 10


class Engine(str, Enum):
    """What starts processes on nodes."""

    SLURM = "slurm"
    CLUSH = "clush"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start, and where."""

    engine: Engine
    nodes: tuple[str, ...]
    doctor: tuple[str, ...]
    """The words that start attn-doctor on a node."""
    check_args: tuple[str, ...] = ()
    timeout: int = 300
    """Seconds for one node."""
    queue_timeout: int = 30
    partition: str | None = None
    gpus_per_node: str | None = None
    gres: str | None = None
    account: str | None = None
    container_image: str | None = None
    engine_args: tuple[str, ...] = ()
    in_job: bool = False
    asking: tuple[str, ...] = ()
    """What asks a Ray cluster: fleet/on_ray.py."""

    @property
    def limit(self) -> float:
        """Seconds after which even the engine itself is given up."""
        rounds = -(-len(self.nodes) // _AT_ONCE) if self.engine is Engine.CLUSH else 1
        return self.queue_timeout + rounds * (self.timeout + _KILL) + _AFTER_THE_FIRST + _ENGINE

    def command(self) -> tuple[str, ...]:
        """The whole command, as a list."""
        if self.engine is Engine.RAY:
            return self._ray()
        return self._srun() if self.engine is Engine.SLURM else self._clush()

    def _node_command(self) -> tuple[str, ...]:
        # Outside of the doctor: what holds Python itself (a dead file server) no limit of ours would end.
        limited = ("timeout", "-k", str(_KILL), str(self.timeout))
        # --exit-zero: a node that is ill must not look to the engine like a step that failed.
        return (*limited, *self.doctor, "check", "--format", "chunks", "--exit-zero", *self.check_args)

    def _srun(self) -> tuple[str, ...]:
        wanted: list[str] = ["srun", "-Q", "--no-kill", "--kill-on-bad-exit=0", "--label"]
        wanted += [f"--immediate={self.queue_timeout}", f"--wait={self.timeout + _KILL + _AFTER_THE_FIRST}"]
        # --ntasks too: a job says its own in SLURM_NTASKS, and that would win
        wanted += [f"--nodes={len(self.nodes)}", f"--ntasks={len(self.nodes)}", "--ntasks-per-node=1"]
        wanted += [f"--nodelist={fold(self.nodes)}"]
        if self.in_job:
            wanted.append("--overlap")  # the job's own step holds the CPUs
        for option, value in (
            ("--partition", self.partition),
            ("--account", self.account),
            ("--gpus-per-node", self.gpus_per_node),
            ("--gres", self.gres),
            ("--container-image", self.container_image),
        ):
            if value is not None:
                wanted.append(f"{option}={value}")
        return (*wanted, *self.engine_args, *self._node_command())

    def _clush(self) -> tuple[str, ...]:
        head = ["clush", "-S", "-f", str(_AT_ONCE), "-t", str(_CONNECT)]
        head += ["-u", str(self.timeout + _KILL + _AFTER_THE_FIRST), "-w", fold(self.nodes)]
        # ssh hands one string to the shell of the other side, whatever it is given: quoted word by word.
        return (*head, *self.engine_args, shlex.join(self._node_command()))

    def _ray(self) -> tuple[str, ...]:
        # Within the node, and for a node that never answers: Ray has neither limit. Workers take seconds to start.
        inner = self.timeout + _KILL + _AFTER_THE_FIRST
        limits = (str(inner), str(inner + self.queue_timeout))
        return (*self.asking, "run", ",".join(self.nodes), *limits, *self._node_command())


def shown(command: tuple[str, ...]) -> str:
    """The command as a person would type it."""
    return shlex.join(command)
