"""One examination for all ranks of a node: one rank examines, the others wait and read its answer.

Everything is in a private folder on node-local memory or disk: a lock on a shared file system is slow and would exclude
other nodes. Results never depend on the sharing; without such a folder each rank examines for itself.

The lock is the kernel's: when its holder dies, the next rank in line examines instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.model.digests import sha256
from attn_doctor.quick_dataclasses import asdict, dataclass

#: Seconds that the other ranks wait for local rank 0 to start; users expect its output.
_HEAD_START = 3.0
_LOOK_AGAIN = 0.1
#: A rank may start long after local rank 0 has finished; an older answer belongs to another launch.
_FRESH = 900.0
_KEPT = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One of several processes that a launcher started on this node."""

    launch: str
    """Equal for the ranks of one launch; differs from every other launch on this node."""
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of an examination."""

    status: int
    report: str | None = None
    """JSON of attn-doctor/report/v1."""
    id: str = ""
    finished: float = 0.0
    """Seconds since the node's boot."""


def rank(environment: Mapping[str, str]) -> Rank | None:
    """The rank of this process under torchrun, srun or Open MPI; None when there is only one process here.

    torchrun is tested first: under srun it starts ranks of its own.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables and https://slurm.schedmd.com/srun.html
    """
    if environment.get("LOCAL_WORLD_SIZE", "").isdigit():
        known_by = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
        return _rank("torchrun", environment, known_by, "LOCAL_RANK", int(environment["LOCAL_WORLD_SIZE"]))
    if environment.get("OMPI_COMM_WORLD_LOCAL_SIZE", "").isdigit():
        size = int(environment["OMPI_COMM_WORLD_LOCAL_SIZE"])
        return _rank(
            "mpirun", environment, ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"), "OMPI_COMM_WORLD_LOCAL_RANK", size
        )
    if environment.get("SLURM_STEP_ID"):
        known_by = ("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURMD_NODENAME")
        return _rank("srun", environment, known_by, "SLURM_LOCALID", _tasks_here(environment))
    return None


def _rank(launcher: str, environment: Mapping[str, str], known_by: tuple[str, ...], own: str, size: int) -> Rank | None:
    number = environment.get(own, "")
    if size < 2 or not number.isdigit():
        return None
    return Rank(launch="\0".join((launcher, *(environment.get(name, "") for name in known_by))), number=int(number))


def _tasks_here(environment: Mapping[str, str]) -> int:
    """Number of the step's tasks on this node: SLURM_STEP_TASKS_PER_NODE is `8(x3),4`, one entry per run of equal
    nodes.
    """
    try:
        node = int(environment.get("SLURM_NODEID", "0"))
        for part in environment.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
            tasks, _, times = part.rstrip(")").partition("(x")
            node -= int(times or "1")
            if node < 0:
                return int(tasks)
    except ValueError:
        pass
    return 1


def once(
    question: str, examine: Callable[[], Answer], *, rank: Rank | None, wait: float, folder: Path | None = None
) -> tuple[Answer, bool]:
    """Returns the answer, and True if this process examined, False if it read another's answer.

    `question` contains everything by which two examinations may differ. An answer of another process is accepted when
    it was found after this process started. From the same launch it is also accepted when found shortly before, but
    never twice by one rank: a job script may run check, fix and check again.

    Raises AttnDoctorError after `wait` seconds, and whatever `examine` raises.
    """
    started = time.monotonic()
    folder = _private_folder() if folder is None else folder
    if folder is None:
        return examine(), True
    key = sha256(f"{rank.launch if rank else ''}\0{question}".encode(errors="backslashreplace")).hexdigest()[:20]
    try:
        handle = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return examine(), True
    place = _Place(folder=folder, key=key, rank=rank, started=started)
    try:
        if rank is not None and rank.number > 0:
            _leave_room(handle, place)
        _take(handle, until=started + wait, rank=rank)
        found = place.answer()
        if found is not None:
            return found, False
        _prune(folder)
        return place.publish(examine), True
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Folder with the answers to one question."""

    folder: Path
    key: str
    rank: Rank | None
    started: float

    def answer(self) -> Answer | None:
        """Another process's answer, if this process may use it."""
        try:
            written = json.loads((self.folder / f"{self.key}.json").read_text())
            answer = Answer(**written)
            since = float(answer.finished) - self.started
        except (OSError, ValueError, TypeError):
            return None
        late = self.rank is not None and self.rank.number > 0
        if since < (-_FRESH if late else 0.0):
            return None
        return answer if self._first_time(answer.id) else None

    def _first_time(self, answer: str) -> bool:
        if self.rank is None:
            return True
        taken = self.folder / f"{self.key}.{self.rank.number}"
        try:
            if taken.exists() and taken.read_text() == answer:
                return False
            taken.write_text(answer)
        except OSError:
            return False
        return True

    def publish(self, examine: Callable[[], Answer]) -> Answer:
        """Runs the examination and stores the answer for the other ranks."""
        answer = examine()
        self._write(answer)
        return answer

    def _write(self, answer: Answer) -> None:
        stamp = f"{os.getpid()}-{time.time_ns()}"
        text = json.dumps({**asdict(answer), "id": stamp, "finished": time.monotonic()})
        part = self.folder / f"{self.key}.{os.getpid()}.part"
        # If there is no room, the others examine one after the other: slow, but correct.
        with contextlib.suppress(OSError):
            try:
                part.write_text(text)
                part.replace(self.folder / f"{self.key}.json")
            finally:
                part.unlink(missing_ok=True)
            self._first_time(stamp)


def _leave_room(handle: int, place: _Place) -> None:
    until = time.monotonic() + _HEAD_START
    while time.monotonic() < until and not (place.folder / f"{place.key}.json").exists():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        fcntl.flock(handle, fcntl.LOCK_UN)
        time.sleep(_LOOK_AGAIN)


def _take(handle: int, *, until: float, rank: Rank | None) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise AttnDoctorError(
                    "the process that examines this node for the others does not come to an end",
                    about=f"process {_holder(handle)}" + (f"; this is local rank {rank.number}" if rank else ""),
                    hint="See what it hangs in (py-spy dump --pid), and end it: the next one in line then examines.",
                ) from None
            time.sleep(_LOOK_AGAIN)
        else:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            return


def _holder(handle: int) -> str:
    with contextlib.suppress(OSError):
        return os.pread(handle, 32, 0).decode(errors="replace") or "?"
    return "?"


def _private_folder() -> Path | None:
    """A folder on this node that only this user can enter."""
    import tempfile

    for base in ("/dev/shm", tempfile.gettempdir()):  # noqa: S108
        folder = Path(base) / f"attn-doctor-{os.getuid()}"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            seen = folder.lstat()
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077:
                return folder
    return None


def _prune(folder: Path) -> None:
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _KEPT:
                file.unlink()
