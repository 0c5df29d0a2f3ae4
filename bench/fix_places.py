"""Environments that fix_crash.py disturbs: which packages they hold, how they are laid out, where they lie."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
#: Releases of a package that attn-doctor examines: the first one of a case is what its finding is about.
_OLD, _NEW = ("einops==0.8.0",), ("einops==0.8.1",)
#: Name -> packages of the environment, and what the fix asks for.
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "x-transformers": (("x-transformers==1.30.1",), ("x-transformers==1.30.2",)),
    "fla": (
        ("fla-core==0.4.0", "flash-linear-attention==0.4.0"),
        ("fla-core==0.4.1", "flash-linear-attention==0.4.1"),
    ),
    "nvidia": (
        (*_OLD, "nvidia-nvtx-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.4.127"),
        (*_NEW, "nvidia-nvtx-cu12==12.6.77", "nvidia-cuda-runtime-cu12==12.6.77"),
    ),
    "pth": ((*_OLD, "pytest-cov==6.0.0"), (*_NEW, "pytest-cov==6.1.0")),
    "cutlass": ((*_OLD, "nvidia-cutlass-dsl==4.2.0"), (*_NEW, "nvidia-cutlass-dsl==4.2.1")),
    "scripts": ((*_OLD, "accelerate==1.0.0"), (*_NEW, "accelerate==1.0.1")),
    "data": ((*_OLD, "notebook-shim==0.2.3", "tqdm==4.66.4"), (*_NEW, "notebook-shim==0.2.4", "tqdm==4.66.5")),
}
_TOGETHER = ("nvidia", "pth", "scripts", "data", "x-transformers")
CASES["mixed"] = (
    tuple(dict.fromkeys(pin for case in _TOGETHER for pin in CASES[case][0])),
    tuple(dict.fromkeys(pin for case in _TOGETHER for pin in CASES[case][1])),
)
#: How an environment is laid out, or where it lies -> what that is.
WAYS = {
    "pip": "a venv, its own pip",
    "uv": "a venv, uv with hard links into its cache",
    "bare": "a venv without pip: attn-doctor's own works",
    "full": "a venv on a disk with little room, pip",
    "bind": "a venv whose site-packages is mounted from another file system, uv",
    "overlay": "a venv in the lower layer of an overlay, uv",
    "dist": "a system's Python with dist-packages, pip",
    "user": "the user's own site-packages of a Python, pip",
    "conda": "a Python of its own with conda-meta, uv",
}
BY_UV = ("uv", "bind", "overlay", "conda")
_MOUNTED = ("full", "bind", "overlay")
_SMALL = 96 << 20
State = dict[str, tuple[object, ...]]


def enter_namespace(ways: str) -> None:
    """Mounts from here on are this process's own."""
    if any(one in ways for one in _MOUNTED) and ctypes.CDLL(None).unshare(0x20000) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def state(folder: Path) -> State:
    """Every file with hash, mode, owner, time; every folder with mode and owner."""
    found: State = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in (".attn-doctor", "__pycache__")]
        for name in (*folders, *files):
            path = Path(place) / name
            seen = path.lstat()
            own = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = (*own, os.readlink(path))
            elif path.is_dir():
                found[str(path.relative_to(folder))] = own
            else:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(folder))] = (*own, seen.st_mtime_ns, digest)
    return found


def without_times(seen: State) -> State:
    """What two installations of one release have in common: everything but times, and what holds a time."""
    return {
        name: own if len(own) < 5 else (*own[:3], *own[4:])
        for name, own in seen.items()
        if not name.endswith(("uv_cache.json", "RECORD"))
    }


def python_of(environment: Path, way: str) -> Path:
    """Its interpreter."""
    return environment / {"dist": "usr/bin/python3.11", "user": "base/bin/python"}.get(way, "bin/python")


class Places:
    """Wheels, and environments made of them, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        self.place = folder / "place"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "VIRTUAL_ENV"))},
            "PYTHONPATH": str(CHECKOUT),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "UV_CACHE_DIR": str(folder / "uv-cache"),
            "UV_NO_CONFIG": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONUSERBASE": str(self.place / "environment/user"),
        }

    def fetch(self, case: str) -> None:
        """Downloads both releases, with the settings of this shell."""
        for pin in (*CASES[case][0], *CASES[case][1]):
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(self.wheels), pin],
                check=True,
                stderr=subprocess.DEVNULL,
            )

    @functools.cache  # noqa: B019 -- lives as long as the program
    def template(self, case: str, way: str) -> Path:
        """An environment with the old release."""
        made = self.folder / f"template-{case}-{way}"
        words = ["--no-deps", "--no-index", "--find-links", str(self.wheels), *CASES[case][0]]
        python = str(python_of(made, way))
        if way in ("dist", "user", "conda"):
            _own_python(python_of(made, way), dist=way == "dist")
            words += ["--user"] if way == "user" else []
            if way == "conda":
                (made / "conda-meta").mkdir()
                (made / "conda-meta/history").touch()
        else:
            without = [] if way in ("pip", "full") else ["--without-pip"]
            subprocess.run([sys.executable, "-m", "venv", *without, str(made)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet"]
        tool = ["uv", "pip", "install", "--quiet", "--python", python] if way in BY_UV else pip
        users = {**self.environment, "PYTHONUSERBASE": str(made / "user")}
        subprocess.run([*tool, *words], check=True, env=users)
        return made

    @contextlib.contextmanager
    def fresh(self, case: str, way: str) -> Iterator[Path]:
        """A copy of it with the same times, at the same path each time; hard links lead into the cache as before."""
        template, made = self.template(case, way), self.place / "environment"
        self.place.mkdir()
        mounts = []
        try:
            if way == "full":
                mounts.append(_mount(self.place, "tmpfs", f"size={_SMALL}"))
            if way == "overlay":
                for name in ("environment", "upper", "work"):
                    (self.place / name).mkdir()
                layers = (("lower", template), ("upper", self.place / "upper"), ("work", self.place / "work"))
                mounts.append(_mount(made, "overlay", ",".join(f"{name}dir={path}" for name, path in layers)))
            else:
                subprocess.run(["cp", "-a", str(template), str(made)], check=True)
            if way == "uv":
                self._link_into_cache(template, made)
            if way == "bind":
                site = next(made.glob("lib/python*/site-packages"))
                mounts.append(_mount(site, "tmpfs", "size=1g"))
                subprocess.run(["cp", "-a", f"{template / site.relative_to(made)}/.", str(site)], check=True)
            for script in (*made.glob("bin/*"), *made.glob("*/bin/*"), *made.glob("usr/local/bin/*")):
                _lead_to(script, template, made)
            yield made
        finally:
            for one in reversed(mounts):
                subprocess.run(["umount", "--lazy", str(one)], check=True)
            shutil.rmtree(self.place, ignore_errors=True)

    def _link_into_cache(self, template: Path, made: Path) -> None:
        linked = {one.lstat().st_ino for one in (self.folder / "uv-cache").rglob("*") if one.is_file()}
        for file in made.rglob("*"):
            source = template / file.relative_to(made)
            if file.is_file() and not file.is_symlink() and source.lstat().st_ino in linked:
                file.unlink()
                os.link(source, file)


def _own_python(python: Path, *, dist: bool) -> None:
    """A copy of an interpreter with a standard library of links, which takes itself for the only one of a prefix."""
    base = Path("/usr/bin/python3.11") if dist else Path(os.path.realpath(sys.executable))
    library = base.parent.parent / f"lib/{base.name}"
    own = python.parent.parent / "lib" / base.name
    python.parent.mkdir(parents=True)
    own.mkdir(parents=True)
    shutil.copy2(base, python)
    for one in library.iterdir():
        if one.name not in ("site-packages", "EXTERNALLY-MANAGED"):
            (own / one.name).symlink_to(one)
    if not dist:
        (own / "site-packages").mkdir()


def _mount(where: Path, kind: str, options: str) -> Path:
    subprocess.run(["mount", "-t", kind, "-o", options, kind, str(where)], check=True)
    return where


def _lead_to(script: Path, template: Path, made: Path) -> None:
    if not script.is_file() or script.is_symlink() or script.stat().st_size > 100_000:
        return
    seen = script.stat()
    content = script.read_bytes()
    if str(template).encode() in content:
        script.write_bytes(content.replace(str(template).encode(), str(made).encode()))
        os.utime(script, ns=(seen.st_atime_ns, seen.st_mtime_ns))
