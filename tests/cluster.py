"""A small cluster on one machine: nodes with their own network, host name and mounts, a real Slurm and sshd on them.

Written from Slurm's and MUNGE's documentation: https://slurm.schedmd.com/slurm.conf.html (several slurmd on one
machine: `-N`; SlurmdParameters=config_overrides), https://dun.github.io/munge/. Every daemon runs in the foreground, as
a child whose process id is kept, so that `close` ends just what was started here. Needs root, iproute2 and the daemons.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import CHECKOUT, clean_environment

SLURM_PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "sinfo", "scontrol", "munged", "ip", "unshare")
#: One for each cluster of this process: what a cluster leaves behind is never in the way of the next.
_NUMBERS = itertools.count()
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def lacking(programs: Sequence[str]) -> str:
    """Why there can be no such cluster here; empty when there can."""
    missing = [one for one in programs if shutil.which(one, path=f"{_PATH}:{os.environ.get('PATH', '')}") is None]
    if missing:
        return f"not installed: {' '.join(missing)}"
    if os.geteuid() != 0:
        return "not root: network namespaces and slurmd need it"
    probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True)
    return "" if probe.returncode == 0 else "no namespaces can be made here"


@dataclass(kw_only=True)
class Node:
    """One node. `mounts` are (what, where) bind mounts that only it sees, (`tmpfs:SIZE`, where), or (`read-only`,
    where)."""

    name: str
    address: str
    space: str
    mounts: tuple[tuple[str, Path], ...] = ()
    slurmd: subprocess.Popen[bytes] | None = None
    sshd: subprocess.Popen[bytes] | None = None


@dataclass(kw_only=True)
class Cluster:
    """Nodes n1, n2, …; use `up`."""

    folder: Path
    nodes: dict[str, Node]
    bridge: str
    network: str
    node_options: str = ""
    """More of slurm.conf about each node, such as Gres=gpu:4."""
    own_options: Mapping[str, str] = field(default_factory=dict)
    """The same, of single nodes."""
    gres: str = ""
    """gres.conf"""
    in_default: str = "ALL"
    """The nodes of the default partition."""
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.nodes)

    def environment(self, **more: str) -> dict[str, str]:
        """For commands of a user of this cluster."""
        usual = {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(CHECKOUT),
            "TMPDIR": str(self.folder / "tmp"),
        }
        chosen = {**usual, **more}
        return clean_environment(**{**chosen, "PATH": f"{_PATH}:{chosen['PATH']}"})

    def run(
        self, *command: object, limit: float = 120.0, env: Mapping[str, str] | None = None, cwd: Path = CHECKOUT
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as that user."""
        return subprocess.run(
            [str(one) for one in command],
            capture_output=True,
            text=True,
            timeout=limit,
            env=self.environment(**dict(env or {})),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
        )

    def doctor(self, *arguments: object, limit: float = 120.0, **env: str) -> subprocess.CompletedProcess[str]:
        """The command line, on the machine that users log in to."""
        return self.run(sys.executable, "-m", "attn_doctor", *arguments, limit=limit, env=env)

    # What happens to nodes

    def freeze(self, name: str) -> None:
        slurmd = self.nodes[name].slurmd
        assert slurmd is not None
        slurmd.send_signal(signal.SIGSTOP)

    def kill(self, name: str) -> None:
        slurmd = self.nodes[name].slurmd
        assert slurmd is not None
        slurmd.kill()
        slurmd.wait(10)

    def cut(self, name: str) -> None:
        """Pulls the cable."""
        _ip("link", "set", f"{self.bridge}{name}", "down")

    def start_slurmd(self, node: Node) -> None:
        node.slurmd = self._inside(node, "slurmd", "-D", "-N", node.name, log=f"slurmd-{node.name}")

    def wait_idle(self, seconds: float = 60.0) -> None:
        """Until Slurm has all nodes."""
        self.until(lambda: self._idle() == len(self.nodes), seconds, "nodes are not idle")

    def _idle(self) -> int:
        said = self.run("sinfo", "-h", "-N", "-o", "%N %t").stdout.splitlines()
        return len({line.split()[0] for line in said if line.endswith(" idle")})

    def until(self, holds: Callable[[], bool], seconds: float, words: str) -> None:
        """Waits until it holds, not longer than a daemon that fails: of a mount that cannot be made, for example."""
        end = time.monotonic() + seconds
        while not holds():
            failed = any(daemon.poll() not in {None, 0, -signal.SIGKILL} for daemon in self.daemons)
            if failed or time.monotonic() > end:
                logs = "\n".join(f"== {file.name}\n{file.read_text()[-1500:]}" for file in self.folder.glob("*.log"))
                raise AssertionError(f"{words}; a daemon failed, or {seconds:.0f} s have passed\n{logs}")
            time.sleep(0.1)

    def start_sshd(self) -> Path:
        """sshd on every node; gives the ssh configuration for it."""
        keys = self.folder / "ssh"
        keys.mkdir(mode=0o700)
        Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
        (keys / "authorized").write_bytes((keys / "user.pub").read_bytes())
        known = (keys / "host.pub").read_text().split()[:2]
        for node in self.nodes.values():
            (keys / f"sshd-{node.name}").write_text(
                f"ListenAddress {node.address}\nPort 22\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\n"
                f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            )
            node.sshd = self._inside(
                node, shutil.which("sshd", path=_PATH) or "sshd", "-D", "-e", "-f", str(keys / f"sshd-{node.name}"),
                log=f"sshd-{node.name}",
            )  # fmt: skip
        (keys / "known").write_text("".join(f"{node.address} {' '.join(known)}\n" for node in self.nodes.values()))
        (keys / "config").write_text(
            "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in self.nodes.values())
            + f"Host *\n  IdentityFile {keys}/user\n  UserKnownHostsFile {keys}/known\n  BatchMode yes\n"
            "  ControlMaster no\n"
        )
        for node in self.nodes.values():
            self.until(lambda address=node.address: _answers(address, 22), 20, "sshd does not answer")  # type: ignore[misc]
        return keys / "config"

    # Set-up

    def start_slurm(self, more: str = "") -> None:
        """munged, slurmctld and a slurmd on each node."""
        key = self.folder / "munge" / "key"
        key.parent.mkdir(mode=0o711)
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        here = key.parent
        munged = ("munged", "-F", "--force", "--key-file", str(key), "--socket", str(here / "socket"),
                  "--pid-file", str(here / "pid"), "--log-file", str(here / "munged.log"),
                  "--seed-file", str(here / "seed"))  # fmt: skip
        self._daemon(munged, log="munged")
        self.until((here / "socket").exists, 20, "munged does not answer")
        (self.folder / "slurm.conf").write_text(self._configuration() + more)
        # cgroups are not used, and slurmd looks for those of version 2 all the same unless it is told otherwise.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "gres.conf").write_text(self.gres)
        for name in ("state", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        self._daemon(("slurmctld", "-D", "-i"), log="slurmctld")
        for node in self.nodes.values():
            self.start_slurmd(node)
        self.wait_idle()

    def _configuration(self) -> str:
        nodes = "\n".join(
            f"NodeName={node.name} NodeAddr={node.address} CPUs=8 RealMemory=1000 {self.node_options} "
            f"{self.own_options.get(node.name, '')} State=UNKNOWN"
            for node in self.nodes.values()
        )
        return (
            f"ClusterName=tests\nSlurmctldHost={socket.gethostname()}({self.network}.254)\nSlurmctldPort={_free_port()}\n"
            f"SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nCredType=cred/munge\n"
            f"AuthInfo=socket={self.folder}/munge/socket\n"
            f"StateSaveLocation={self.folder}/state\nSlurmdSpoolDir={self.folder}/spool/%n\n"
            f"SlurmctldPidFile={self.folder}/slurmctld.pid\nSlurmdPidFile={self.folder}/slurmd-%n.pid\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
            "AccountingStorageType=accounting_storage/none\nMpiDefault=none\nSwitchType=switch/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\n"
            "SchedulerParameters=sched_interval=2,bf_interval=2\nSlurmdParameters=config_overrides\nReturnToService=2\n"
            "SlurmdTimeout=20\nSlurmctldTimeout=20\nMessageTimeout=5\nKillWait=2\nInactiveLimit=0\n"
            f"{nodes}\nPartitionName=all Nodes={self.in_default} Default=YES MaxTime=INFINITE State=UP\n"
        )

    def _inside(self, node: Node, *command: str, log: str) -> subprocess.Popen[bytes]:
        mounts = []
        for what, where in node.mounts:
            if what.startswith("tmpfs:"):
                mounts.append(f"mount -t tmpfs -o size={what.removeprefix('tmpfs:')} tmpfs '{where}'")
            elif what == "read-only":
                mounts.append(f"mount --bind '{where}' '{where}' && mount -o remount,ro,bind '{where}'")
            else:
                mounts.append(f"mount --bind '{what}' '{where}'")
        # exec all the way down: the process that is started is the daemon in the end.
        script = " && ".join([f"hostname {node.name}", *mounts, 'exec "$@"'])
        return self._daemon(
            ("ip", "netns", "exec", node.space, "unshare", "--uts", "--mount", "sh", "-c", script, "sh", *command),
            log=log,
        )

    def _daemon(self, command: Sequence[str], *, log: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as out:
            started = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment(),
                start_new_session=True,
            )  # fmt: skip
        self.daemons.append(started)
        return started

    def close(self) -> None:
        """Ends every daemon, and what runs in the nodes' namespaces; removes the network."""
        for node in self.nodes.values():
            listed = subprocess.run(["ip", "netns", "pids", node.space], capture_output=True, text=True).stdout
            for process in listed.split():  # job steps outlive the slurmd that started them
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
        for daemon in reversed(self.daemons):
            with contextlib.suppress(ProcessLookupError):
                daemon.kill()
            # On a busy machine a killed slurmctld was not gone after 10 s, and the exception left the network behind
            # for the next test. Whether it is gone or not is no matter of the test: the next cluster has other names.
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(60)
        for node in self.nodes.values():
            _ip("link", "del", f"{self.bridge}{node.name}", check=False)
            _ip("netns", "del", node.space, check=False)
        _ip("link", "del", self.bridge, check=False)


@contextlib.contextmanager
def up(
    folder: Path,
    count: int = 3,
    *,
    slurm: bool = True,
    mounts: Mapping[str, tuple[tuple[str, Path], ...]] | None = None,
    more: str = "",
    node_options: str = "",
    own_options: Mapping[str, str] | None = None,
    gres: str = "",
    in_default: str = "ALL",
) -> Iterator[Cluster]:
    """A cluster of `count` nodes in `folder`; `mounts` by node; `more` lines of slurm.conf."""
    folder.mkdir(parents=True, exist_ok=True)
    number = next(_NUMBERS)
    tag = f"{os.getpid() % 10_000:04d}{number % 100:02d}"
    # 37 has no divisor in common with 240: neighbours in a process and processes beside each other keep apart.
    third = 10 + (os.getpid() + 37 * number) % 240
    cluster = Cluster(
        folder=folder,
        bridge=f"ad{tag}",
        network=f"10.213.{third}",
        node_options=node_options,
        own_options=own_options or {},
        gres=gres,
        in_default=in_default,
        nodes={
            f"n{number}": Node(
                name=f"n{number}",
                address=f"10.213.{third}.{number}",
                space=f"ad{tag}-n{number}",
                mounts=(mounts or {}).get(f"n{number}", ()),
            )
            for number in range(1, count + 1)
        },
    )
    (folder / "tmp").mkdir(mode=0o1777, exist_ok=True)
    try:
        _ip("link", "add", cluster.bridge, "type", "bridge")
        _ip("addr", "add", f"{cluster.network}.254/24", "dev", cluster.bridge)
        _ip("link", "set", cluster.bridge, "up")
        for node in cluster.nodes.values():
            outside = f"{cluster.bridge}{node.name}"
            _ip("netns", "add", node.space)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", node.space)
            _ip("link", "set", outside, "master", cluster.bridge, "up")
            _ip("-n", node.space, "addr", "add", f"{node.address}/24", "dev", "eth0")
            _ip("-n", node.space, "link", "set", "eth0", "up")
            _ip("-n", node.space, "link", "set", "lo", "up")
        if slurm:
            cluster.start_slurm(more)
        yield cluster
    finally:
        cluster.close()


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"ip {' '.join(arguments)}: {done.stderr}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port


def _answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False
