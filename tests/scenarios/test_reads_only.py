"""`check` writes nowhere but in one private temporary folder, and asks nothing of the network: shown with strace."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT, HAS_TORCH, Environment, clean_environment, command, make_environment

Make = Callable[..., Environment]

#: Every call that makes, changes or removes something in a file system, and every one that may reach a network.
_TRACED = (
    "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,"
    "symlink,symlinkat,truncate,chmod,fchmodat,chown,lchown,fchownat,utimensat,utimes,futimesat,setxattr,lsetxattr,"
    "removexattr,socket,connect,bind,sendto,sendmsg,sendmmsg,chdir,clone,clone3,fork,vfork"
)
_STRACE = ("strace", "-ff", "-y", "-qq", "-s", "4096", "-e", "signal=none", "-e")
_FOR_NOBODY = ("/dev/null", "/dev/tty")


def _strace_works() -> str:
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"strace cannot trace here: {done.stderr.strip()}"


needs_strace = pytest.mark.skipif(bool(_strace_works()), reason=_strace_works() or "it works")


@dataclass(frozen=True, kw_only=True)
class Traced:
    """What a call of the command line did, as the kernel saw it."""

    status: int
    stderr: str
    changed: tuple[tuple[str, str], ...]
    """(path, system call) of everything that was opened for writing, made, changed or removed."""
    network: tuple[str, ...]
    """Lines with an internet socket."""

    def outside(self, *folders: Path) -> list[tuple[str, str]]:
        """Changes outside these folders and the files that belong to nobody."""
        return [
            (path, line)
            for path, line in self.changed
            if path not in _FOR_NOBODY and not any(Path(path).is_relative_to(folder) for folder in folders)
        ]

    def inside(self, folder: Path) -> list[str]:
        """Changes below this folder."""
        return [path for path, _ in self.changed if Path(path).parent.is_relative_to(folder)]


def _trace(folder: Path, *arguments: object, **changes: str | None) -> Traced:
    """Runs the command line under strace; temporary folders are made in `folder`/tmp."""
    (folder / "tmp").mkdir(exist_ok=True)
    logs = folder / "strace"
    logs.mkdir(exist_ok=True)
    line = command(*arguments)
    environment = clean_environment(TMPDIR=str(folder / "tmp"), **changes)
    # What `pip install` compiles is compiled here first; it is nothing that `check` itself wants to write.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(CHECKOUT / "attn_doctor")], check=False)
    done = subprocess.run(
        # -y names the folder behind each number, so that relative paths can be told. One log for each process: in a
        # common one a call that another process interrupts is cut in two, and a chdir was lost that way.
        [*_STRACE, f"trace={_TRACED}", "-o", str(logs / "of"), *line],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=CHECKOUT,
        env=environment,
    )
    lines = {log.suffix[1:]: log.read_text(errors="replace").splitlines() for log in logs.iterdir()}
    return Traced(
        status=done.returncode,
        stderr=done.stderr,
        changed=tuple(_changes(lines)),
        network=tuple(line for one in lines.values() for line in one if "AF_INET" in line),
    )


_CALL = re.compile(r"^(?P<name>\w+)\((?P<rest>.*)")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)(?:<(?P<at>[^>]*)>)?, )?"(?P<path>(?:[^"\\]|\\.)*)"')
_FORK = re.compile(r"^(?:clone3?|v?fork)\(.* = (?P<child>\d+)$")


def _changes(logs: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Paths that a process (pid: its lines) changes; a failed attempt counts, it would have been a change elsewhere.

    Old calls (mkdir, rename, unlink) name no folder that a path counts from: each process's own is followed, from the
    one that its parent had when it was forked.
    """
    forked = {found["child"] for lines in logs.values() for line in lines if (found := _FORK.match(line))}
    started = [(pid, str(CHECKOUT)) for pid in logs if pid not in forked]
    while started:
        pid, here = started.pop()
        for line in logs.get(pid, ()):
            fork = _FORK.match(line)
            if fork is not None:
                started.append((fork["child"], here))
                continue
            call = _CALL.match(line)
            if call is None:
                continue
            name, rest = call["name"], call["rest"]
            paths = [os.path.normpath(Path(found["at"] or here) / found["path"]) for found in _PATH.finditer(rest)]
            if name == "chdir":
                here = paths[0] if rest.endswith(" = 0") else here
            elif name in ("open", "openat", "openat2") and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", rest):
                continue
            elif name not in ("socket", "connect", "bind", "sendto", "sendmsg", "sendmmsg"):
                yield from ((path, line) for path in paths)


def _listing(*folders: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, size, modification time in ns of everything below, and a hash of Python files."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            status = path.lstat()
            source = path.suffix == ".py" and path.is_file()
            found[str(path)] = (
                status.st_mode,
                status.st_size,
                status.st_mtime_ns,
                hashlib.sha256(path.read_bytes()).hexdigest() if source else "",
            )
    return found


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """torch where the tests have one, and packages that write and connect as packages do when they are imported."""
    env = make_environment(tmp_path_factory.mktemp("patient") / "environment", torch=HAS_TORCH)
    env.package("x-transformers", "1.30.1", "import x_transformers.deeper")
    env.module("x_transformers.deeper", "__version__ = '1.30.1'")
    env.package(
        "sageattention",
        "2.2.0",
        """
        import os, pathlib, tempfile
        for folder in (pathlib.Path.home() / ".cache", os.environ["TRITON_CACHE_DIR"], os.environ["XDG_CACHE_HOME"]):
            folder = pathlib.Path(folder, "of-this-package")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "compiled").write_text("x")
        tempfile.mkstemp()
        pathlib.Path("in-the-current-folder").write_text("x")
        """,
    )
    return env


@pytest.fixture(scope="module")
def traced(patient: Environment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Traced, Path, dict, dict]:
    """One full `check`, and what lay in the environment before and after."""
    folder = tmp_path_factory.mktemp("traced")
    before = _listing(patient.folder)
    done = _trace(folder, "check", "--timeout", "120", "--python", patient.python)
    return done, folder, before, _listing(patient.folder)


@needs_strace
class TestCheck:
    def test_came_to_its_end(self, traced: tuple[Traced, Path, dict, dict]) -> None:
        """What follows is about a whole examination."""
        done, *_ = traced

        assert (done.status, done.stderr) == (0, "")

    def test_writes_in_its_private_folder_alone(self, traced: tuple[Traced, Path, dict, dict]) -> None:
        """Of everything opened for writing, made, renamed or removed, nothing lies outside one folder of its own."""
        done, folder, *_ = traced
        own = {folder / "tmp" / Path(path).relative_to(folder / "tmp").parts[0] for path in done.inside(folder / "tmp")}
        private = {one for one in own if one.name.startswith("attn-doctor-")}

        assert len(private) == 1
        assert done.outside(folder / "tmp") == []
        # tempfile tries whether it can write in a folder before it takes it: an empty file, gone at once.
        assert len(own - private) <= 1

    def test_leaves_nothing_there(self, traced: tuple[Traced, Path, dict, dict]) -> None:
        """The private folder is gone."""
        _, folder, *_ = traced

        assert os.listdir(folder / "tmp") == []

    def test_leaves_the_environment_as_it_was(self, traced: tuple[Traced, Path, dict, dict]) -> None:
        """The same files of the same content and age; not one compiled file."""
        _, _, before, after = traced

        assert after == before
        assert not [path for path in after if "__pycache__" in path]

    def test_opens_no_internet_socket(self, traced: tuple[Traced, Path, dict, dict]) -> None:
        """Neither doctor nor patient makes one, let alone connects."""
        done, *_ = traced

        assert done.network == ()


@needs_strace
@pytest.mark.parametrize("options", [("check", "--quick"), ("recipes", "list"), ("schema",)], ids=" ".join)
def test_other_commands_write_as_little(patient: Environment, tmp_path: Path, options: tuple[str, ...]) -> None:
    """--quick too keeps to its private folder; commands that only print make none."""
    more = ("--python", patient.python) if options[0] == "check" else ()

    done = _trace(tmp_path, *options, *more)

    assert done.status == 0
    assert done.outside(tmp_path / "tmp") == []
    assert done.network == ()
    assert bool(done.changed) == (options[0] == "check")


@needs_strace
class TestTheWatchItself:
    """A watch that sees nothing proves nothing."""

    def test_sees_a_package_that_writes_elsewhere(self, tmp_path: Path) -> None:
        """Writing beside itself, and removing, cannot be kept from a package: they are seen."""
        env = make_environment(tmp_path / "environment")
        file = env.package(
            "sageattention",
            "2.2.0",
            """
            import os
            os.chdir(os.path.dirname(__file__))
            open("left-behind", "w").close()
            os.rename("left-behind", "renamed")
            os.mkdir("folder")
            pid = os.fork()
            if pid == 0:
                os.mkdir("folder/of-a-child")
                os._exit(0)
            os.waitpid(pid, 0)
            """,
        )

        done = _trace(tmp_path, "check", "--python", env.python)

        names = {os.path.relpath(path, file.parent) for path, _ in done.outside(tmp_path / "tmp")}
        assert names == {"left-behind", "renamed", "folder", "folder/of-a-child"}

    def test_sees_a_package_that_connects(self, tmp_path: Path) -> None:
        """A telemetry ping on import is seen."""
        env = make_environment(tmp_path / "environment")
        env.package(
            "sageattention",
            "2.2.0",
            """
            import socket
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 9))
            """,
        )

        done = _trace(tmp_path, "check", "--python", env.python)

        assert any("connect(" in line for line in done.network)
