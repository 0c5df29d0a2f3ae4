"""The nodes that Slurm has: their states, their resources, and who has them."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.machine.streaming import output_of
from attn_doctor.quick_dataclasses import dataclass

#: Seconds within which Slurm's commands have to answer.
SOON = 30.0
#: States from `sinfo -o %t` in which a node accepts a step. A `*` means that the node does not answer.
_USABLE = frozenset({"idle", "mix", "alloc", "plnd", "resv", "comp"})
_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/]*)=")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """What Slurm says of one node."""

    name: str
    trouble: str = ""
    """Why it cannot be used, with the admin's reason if there is one; empty when it can."""
    memory: int = 0
    """RealMemory in MB."""
    gres: str = ""
    partition: str = ""
    """The partition that was asked for, else the default one, else the first that has the node."""

    @property
    def gpus(self) -> str:
        """Its GPUs as --gres takes them: `gpu:h100:8`; empty when Slurm knows none."""
        found = [one for one in _without_sockets(self.gres).split(",") if one.split(":")[0] == "gpu"]
        return ",".join(one for one in found if one.rpartition(":")[2] not in {"", "0", "gpu"})


def nodes_of_job(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """The nodes of the job in which this process runs; None outside a job."""
    written = environment.get("SLURM_JOB_NODELIST")
    return unfold(written, about="SLURM_JOB_NODELIST") if written else None


def described(*, partition: str | None = None, among: tuple[str, ...] | None = None) -> dict[str, SlurmNode]:
    """Node -> what Slurm says of it. Nodes of `among` that Slurm does not know have that as their trouble.

    Raises AttnDoctorError when Slurm does not answer.
    """
    # One line per node and partition, not folded; %H (the time) is left out, since it would differ on each. The reason
    # is last: it may contain anything.
    line = ["sinfo", "-h", "-N", "-o", "%N|%t|%m|%G|%P|%E", *(["-p", partition] if partition else [])]
    found: dict[str, SlurmNode] = {}
    wanted = None if among is None else frozenset(among)
    for row in output_of(line, timeout=SOON).splitlines():
        name, state, memory, gres, where, reason = (*row.split("|", 5), *("",) * 6)[:6]
        name, state = name.strip(), state.strip()
        if not name or (wanted is not None and name not in wanted) or (name in found and not where.endswith("*")):
            continue
        usable = state.rstrip("~#!%$@^+") in _USABLE
        said = "" if reason.strip() in ("", "none") else f": {reason.strip()}"
        found[name] = SlurmNode(
            name=name,
            trouble="" if usable else f"Slurm says {state}{' (it does not respond)' if '*' in state else ''}{said}",
            memory=int(digits[0]) if (digits := re.match(r"\d+", memory)) else 0,
            gres="" if gres == "(null)" else gres,
            partition=where.rstrip("*"),
        )
    if among is not None:
        unknown = (name for name in among if name not in found)
        found.update({name: SlurmNode(name=name, trouble="Slurm knows no such node") for name in unknown})
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Which nodes take jobs, and why others do not."""

    reasons: Mapping[str, str]
    """Node that takes none -> the reason that Slurm has."""
    since: Mapping[str, datetime]
    """When that reason was given, where Slurm says it."""
    usable: frozenset[str]


def drained() -> Drained:
    """All nodes of Slurm.

    Raises AttnDoctorError when Slurm does not answer.
    """
    reasons: dict[str, str] = {}
    since: dict[str, datetime] = {}
    usable: set[str] = set()
    for one in records(output_of(["scontrol", "show", "node", "-o"], timeout=SOON)):
        name, state = one.get("NodeName", ""), one.get("State", "")
        # Reason=words [user@time] is the last of the line but for what follows in newer releases.
        reason = one.get("Reason", "").rpartition(" [")[0] or one.get("Reason", "")
        if re.search(r"DRAIN|DOWN|FAIL|NOT_RESPONDING|MAINT", state):
            reasons[name] = reason or state
            with contextlib.suppress(ValueError):  # in the controller's zone, which is taken to be ours
                since[name] = datetime.fromisoformat(one.get("Reason", "").rpartition("@")[2].rstrip("]")).astimezone()
        elif name:
            usable.add(name)
    return Drained(reasons=reasons, since=since, usable=frozenset(usable))


def nodes(*, partition: str | None = None, among: tuple[str, ...] | None = None) -> dict[str, str]:
    """Node -> why it cannot be used; empty when it can.

    Raises AttnDoctorError when Slurm does not answer.
    """
    return {name: node.trouble for name, node in described(partition=partition, among=among).items()}


def expected(environment: Mapping[str, str]) -> tuple[str, ...]:
    """`--expect slurm`: the nodes of this job; outside a job, all nodes of Slurm.

    Raises BadInput.
    """
    job = nodes_of_job(environment)
    if job is not None:
        return job
    try:
        every = tuple(nodes())
    except AttnDoctorError as error:
        raise BadInput(
            f"Slurm does not say which nodes there are: {error.what}",
            about="--expect slurm",
            hint="Name the nodes: --expect 'gpu[001-016]'.",
        ) from None
    return every


def records(text: str) -> Iterator[dict[str, str]]:
    """The records of `scontrol show … -o`: one line each, KEY=value; a value may contain spaces."""
    for line in text.splitlines():
        marks = list(_FIELD.finditer(line))
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        if marks:
            yield {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}


def partitions() -> dict[str, dict[str, str]]:
    """Partition -> its settings; empty when Slurm does not say."""
    with contextlib.suppress(AttnDoctorError):
        found = records(output_of(["scontrol", "show", "partition", "-o"], timeout=SOON))
        return {one["PartitionName"]: one for one in found if "PartitionName" in one}
    return {}


def occupied(wanted: Iterable[str]) -> dict[str, str]:
    """Node -> who has it, and until when: jobs, and reservations that are active. Nodes of which nothing is known are
    left out.
    """
    names = frozenset(wanted)
    said: dict[str, list[str]] = defaultdict(list)
    with contextlib.suppress(AttnDoctorError):
        rows = output_of(["squeue", "-h", "-t", "R,CG,S", "-o", "%i|%u|%e|%N"], timeout=SOON).splitlines()
        latest: dict[str, tuple[str, str, str]] = {}
        for row in rows:
            job, user, ends, where = (*row.split("|", 3), "", "", "", "")[:4]
            for node in _unfolded(where):
                if node in names:
                    latest[node] = max(latest.get(node, ("", "", "")), (ends, job, user))
        for node, (ends, job, user) in latest.items():
            said[node].append(f"busy until {_moment(ends)} (job {job} of {user})")
    with contextlib.suppress(AttnDoctorError):
        for one in records(output_of(["scontrol", "show", "reservation", "-o"], timeout=SOON)):
            if one.get("State") == "ACTIVE":
                whose = ", ".join(who for key in ("Users", "Accounts") if (who := one.get(key, "(null)")) != "(null)")
                words = f"reserved by {one.get('ReservationName', '?')}{f' for {whose}' if whose else ''}"
                for node in _unfolded(one.get("Nodes", "")):
                    if node in names:
                        said[node].append(f"{words} until {_moment(one.get('EndTime', ''))}")
    return {node: "; ".join(words) for node, words in said.items()}


def _moment(written: str) -> str:
    known = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d", written)
    return f"{known[1]} {known[2]}" if known else "an unknown time"


def _unfolded(written: str) -> tuple[str, ...]:
    try:
        return unfold(written, about="squeue") if written and written != "(null)" else ()
    except BadInput:
        return ()


def _without_sockets(gres: str) -> str:
    """`gpu:h100:8(S:0-1)` without the sockets: they may contain commas."""
    return re.sub(r"\([^)]*\)", "", gres)
