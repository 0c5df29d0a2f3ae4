"""The launch command of `fleet run`: the site's own srun, clush or Ray starts `check` on every node.

Each option is there because tests lost reports without it; docs/fleet.md names the reasons.
"""

from __future__ import annotations

import shlex
from enum import Enum

from attn_doctor.fleet.nodeset import fold
from attn_doctor.quick_dataclasses import dataclass

#: Seconds. srun's -W counts from the end of the first task: longer than the slowest regular run takes after that.
_AFTER_THE_FIRST = 15
#: Seconds between SIGTERM and SIGKILL when attn-doctor hangs.
_KILL = 5
#: Additional seconds for an engine to start tasks, notice lost nodes, and end.
_ENGINE = 60.0
_AT_ONCE = 64
_CONNECT = 10


class Engine(str, Enum):
    """Program that starts processes on nodes."""

    SLURM = "slurm"
    """Jobs, one a node: fleet/node_job.py."""
    SRUN = "srun"
    CLUSH = "clush"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command to start, and the nodes to start it on."""

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
    """The command that queries a Ray cluster: fleet/on_ray.py."""

    @property
    def limit(self) -> float:
        """Seconds after which the engine itself is ended."""
        rounds = -(-len(self.nodes) // _AT_ONCE) if self.engine is Engine.CLUSH else 1
        return self.queue_timeout + rounds * (self.timeout + _KILL) + _AFTER_THE_FIRST + _ENGINE

    def command(self) -> tuple[str, ...]:
        """The whole command, as a list."""
        if self.engine is Engine.RAY:
            return self._ray()
        return self._srun() if self.engine is Engine.SRUN else self._clush()

    def _node_command(self) -> tuple[str, ...]:
        # An outer limit: none of our own would end a process that blocks Python itself (a dead file server).
        limited = ("timeout", "-k", str(_KILL), str(self.timeout))
        # --exit-zero: findings on a node must not look like a failed step to the engine.
        return (*limited, *self.doctor, "check", "--format", "chunks", "--exit-zero", *self.check_args)

    def _srun(self) -> tuple[str, ...]:
        wanted: list[str] = ["srun", "-Q", "--no-kill", "--kill-on-bad-exit=0", "--label"]
        wanted += [f"--immediate={self.queue_timeout}", f"--wait={self.timeout + _KILL + _AFTER_THE_FIRST}"]
        # --ntasks is needed too: otherwise the job's own value in SLURM_NTASKS applies
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
        # ssh passes one string to the remote shell in any case, so each word is quoted.
        return (*head, *self.engine_args, shlex.join(self._node_command()))

    def _ray(self) -> tuple[str, ...]:
        # A limit inside the node, and one for a node that never answers: Ray has neither. Workers take seconds to
        # start.
        inner = self.timeout + _KILL + _AFTER_THE_FIRST
        limits = (str(inner), str(inner + self.queue_timeout))
        return (*self.asking, "run", ",".join(self.nodes), *limits, *self._node_command())


def shown(command: tuple[str, ...]) -> str:
    """The command as a person would type it."""
    return shlex.join(command)
