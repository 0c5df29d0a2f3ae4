"""Imports one module and classifies the result: imported, failed, crashed or hung.

The child process in which this happens is in forked.py.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, TypedDict, cast

from . import forked, outcomes
from .uncollected import uncollected

if TYPE_CHECKING:
    from .forked import Tell


class Raised(TypedDict):
    """An error that was raised from another."""

    error_type: str
    error: str


class Outcome(TypedDict, total=False):
    """How an import, or another thing that a child did, ended. `outcome` is always there, the rest where it applies."""

    outcome: str
    """imported | failed | crashed | hung | unasked | told"""
    seconds: float
    version: Optional[str]
    path: Optional[str]
    namespace: List[str]
    how: str
    exit_status: int
    signal: int
    signal_name: str
    error_type: str
    error: str
    where: Optional[str]
    traceback: str
    raised: Raised
    undefined_symbol: str
    undefined_in: str
    missing_library: str
    missing_version: str
    missing_version_of: str
    missing_version_for: str
    missing_module: str
    frames: List[forked.Frame]
    reason: str
    stderr: str
    stdout: str
    value: Any
    """The last value sent by a child."""
    facts: Dict[str, object]
    """Facts of torch (torch_facts.py)."""
    with_a_gpu: Outcome
    """The same where a GPU and its driver answer."""


_LINES = 10
#: Characters kept of a message on either side of the loader's text: a path and a mangled name are shorter. The patterns
#: below try to match from each character on, which would take hours for 100 KB without a blank.
_NEAR = 2000
_MOST_WORDS = 20_000
_LOADER_SAYS = ("undefined symbol: ", "cannot open shared object file", "not found (required by ")
_UNDEFINED = re.compile(r"(?P<library>[^\s:]+\.so[^\s:]*): undefined symbol: (?P<symbol>[^\s,)]+)")
_BARE_UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>[^\s,)]+)")
_MISSING_LIBRARY = re.compile(r"(?P<library>[^\s:]+\.so[^\s:]*): cannot open shared object file")
_MISSING_VERSION = re.compile(
    r"(?P<library>[^\s:]+): version [`'](?P<version>[^'\s]+)' not found \(required by (?P<by>[^)\s]+)\)"
)
_ONLY_WANTS_A_GPU = re.compile(
    r"\b0 active drivers \("  # triton
    r"|\blib(?:cuda|nvidia-ml)\.so(?:\.1)?\b[^\n]{0,40}(?:cannot open shared object file|not found|cannot found)"
    r"|Found no NVIDIA driver|No CUDA GPUs are available|Torch not compiled with CUDA enabled"  # torch
    r"|no CUDA-capable device is detected|CUDA driver version is insufficient|cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE"
    r"|NVML Shared Library Not Found|NVMLError_LibraryNotFound|NVML: Driver Not Loaded"  # nvidia-ml-py
    r"|Failed to infer device type"  # vllm
)
"""Messages of the driver, of CUDA's runtime and of libraries that occur only without a GPU or driver."""


def only_wants_a_gpu(found: Outcome) -> bool:
    """True when an import failed only for lack of a GPU or its driver, judged by its message."""
    if found["outcome"] != outcomes.FAILED:
        return False
    raised = found["raised"]["error"] if "raised" in found else ""
    words = "{}: {}\n{}".format(found.get("error_type"), found.get("error") or "", raised)
    return _ONLY_WANTS_A_GPU.search(words[:_MOST_WORDS]) is not None


def attempt(module: str) -> Tuple[Outcome, Optional[BaseException]]:
    """Imports `module` in this process; returns the outcome (imported, failed, or crashed for a SystemExit) and the
    error.

    For a crash or a hang there is no return; the parent detects them.
    """
    started = time.monotonic()
    raised: Optional[BaseException] = None
    try:
        with uncollected():
            imported = importlib.import_module(module)
    except BaseException as error:  # a module may raise KeyboardInterrupt itself; no user can press ^C here
        found, raised = _failed(error), error
    else:
        version = getattr(imported, "__version__", None)
        path = getattr(imported, "__file__", None)
        found = {
            "outcome": outcomes.IMPORTED,
            "version": version if isinstance(version, str) else None,
            "path": path if isinstance(path, str) else None,
        }
        if path is None and hasattr(imported, "__path__"):
            # A folder without __init__.py can be imported as well: left by an uninstaller, or shared by two packages.
            found["namespace"] = [str(folder) for folder in imported.__path__]
    found["seconds"] = round(time.monotonic() - started, 3)
    return found, raised


class FailsAgain:
    """For sys.meta_path: every later import of `package` raises the first import's error.

    torch cannot be imported twice in one process: the remains of the first import make the second fail for a different
    reason ("function '_has_torch_function' already has a docstring"), and packages that need torch would be blamed for
    that.
    """

    def __init__(self, package: str, error: BaseException) -> None:
        self.package, self.error = package, error

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.package or name.startswith(self.package + "."):
            raise self.error


def telling_errors(work: Callable[[Tell], None]) -> Callable[[Tell], None]:
    """Wraps `work`: marks the values it sends, and sends an error of its own in the form of an import's error."""

    def wrapped(tell: Tell) -> None:
        try:
            work(lambda value: tell({"outcome": outcomes.TOLD, "value": value}))
        except BaseException as error:
            tell(_failed(error))

    return wrapped


def _last(ended: forked.Ended) -> Optional[Outcome]:
    """The last value that the child sent, if it is an outcome."""
    told = ended.told[-1] if ended.told else None
    return cast("Outcome", told) if isinstance(told, dict) and "outcome" in told else None


def outcome(ended: forked.Ended) -> Outcome:
    """The last value that a child sent, or how it ended without one."""
    found: Outcome = _last(ended) or _without_telling(ended)
    if ended.stderr.strip():
        found["stderr"] = ended.stderr
        if found["outcome"] == outcomes.CRASHED:
            # The loader ends a process by itself when a lazily bound symbol is missing: status 127, and a line on
            # stderr.
            found.update(_loader_facts(ended.stderr))
    if ended.stdout.strip() and found["outcome"] not in (outcomes.IMPORTED, outcomes.TOLD):
        found["stdout"] = ended.stdout
    return found


def ending(ended: forked.Ended) -> Optional[Outcome]:
    """How a child that sends several values ended; None when it ran to its end."""
    last = _last(ended)
    if last is not None and last["outcome"] in (outcomes.FAILED, outcomes.CRASHED):
        return last
    if ended.status == 0 and not ended.hung:
        return None
    found = _without_telling(ended)
    if ended.stderr.strip():
        found["stderr"] = ended.stderr
    return found


def in_words(found: Outcome) -> str:
    """One line for a person."""
    kind = found["outcome"]
    if kind == outcomes.FAILED:
        return "{}: {}".format(found["error_type"], (found["error"].splitlines() or [""])[-1])
    where = " in {}".format(found["where"]) if found.get("where") else ""
    if kind == outcomes.HUNG:
        return "hung for {:g} s{}".format(found["seconds"], where)
    if kind == outcomes.CRASHED:
        return "{}{}".format(found["how"], where)
    return str(found.get("reason") or kind)


def _without_telling(ended: forked.Ended) -> Outcome:
    found: Outcome
    if ended.hung:
        found = {"outcome": outcomes.HUNG}
    elif ended.signal is not None:
        name = _signal_name(ended.signal)
        found = {
            "outcome": outcomes.CRASHED,
            "signal": ended.signal,
            "signal_name": name,
            "how": "killed by " + name,
        }
    elif ended.status is not None:
        how = "left the process with exit status {} (os._exit)".format(ended.status)
        found = {"outcome": outcomes.CRASHED, "exit_status": ended.status, "how": how}
    else:
        found = {"outcome": outcomes.UNASKED}
    found["seconds"] = ended.seconds
    if ended.frames and (ended.hung or ended.signal is not None):
        # ctypes.CDLL and similar functions crash in the standard library: their caller is the relevant line
        told = [frame for frame in ended.frames if not _of_standard_library(frame["file"])]
        innermost = (told or ended.frames)[0]
        found["where"] = "{}:{}".format(innermost["file"], innermost["line"])
        found["frames"] = ended.frames[:_LINES]
    if ended.trouble is not None:
        found["reason"] = ended.trouble
    return found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal {}".format(number)


def _failed(error: BaseException) -> Outcome:
    if isinstance(error, SystemExit):
        found: Outcome = {"outcome": outcomes.CRASHED, "how": "called sys.exit({!r})".format(error.code)}
        found["exit_status"] = error.code if isinstance(error.code, int) else (0 if error.code is None else 1)
        found["where"] = _where(error)
        return found
    chain = _chain(error)
    root = chain[-1]
    found = {
        "outcome": outcomes.FAILED,
        "error_type": type(root).__name__,
        "error": _last_lines(str(root)),
        "where": _where(root),
        "traceback": _traceback(error),
    }
    if root is not error:
        found["raised"] = {"error_type": type(error).__name__, "error": _last_lines(str(error))}
    for one in chain:
        found = {**_loader_facts(str(one)), **found}
        if isinstance(one, ModuleNotFoundError) and one.name:
            found.setdefault("missing_module", one.name)
    return found


def _chain(error: BaseException) -> List[BaseException]:
    """The error and those from which it was raised, down to the root."""
    chain = [error]
    while True:
        last = chain[-1]
        following = last.__cause__
        if following is None and not last.__suppress_context__:
            following = last.__context__
            # `try: import a; except ImportError: import b`: the missing a is not the cause.
            if isinstance(last, ModuleNotFoundError) and isinstance(following, ImportError):
                following = None
        if following is None or any(following is one for one in chain):
            return chain
        chain.append(following)


def _loader_facts(text: str) -> Outcome:
    """The dynamic loader's complaint: symbol, library or symbol version, and the file that needs it."""
    found: Outcome = {}
    starts = [start for start in (text.find(words) for words in _LOADER_SAYS) if start >= 0]
    if not starts:
        return found
    text = "\n".join(text[max(0, start - _NEAR) : start + _NEAR] for start in starts)
    undefined = _UNDEFINED.search(text)
    bare = _BARE_UNDEFINED.search(text)
    if undefined:
        found["undefined_symbol"], found["undefined_in"] = (
            undefined.group("symbol"),
            undefined.group("library"),
        )
    elif bare:
        found["undefined_symbol"] = bare.group("symbol")
    library = _MISSING_LIBRARY.search(text)
    if library:
        found["missing_library"] = library.group("library")
    version = _MISSING_VERSION.search(text)
    if version:
        found["missing_version"], found["missing_version_of"] = (
            version.group("version"),
            version.group("library"),
        )
        found["missing_version_for"] = version.group("by")
    return found


def _frames(error: BaseException) -> List[traceback.FrameSummary]:
    """The frames of the traceback outside the import system and this file, innermost last."""
    ours = (__file__, importlib.__file__)
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if not f.filename.startswith("<frozen") and f.filename not in ours]


def _where(error: BaseException) -> Optional[str]:
    frames = _frames(error)
    frames = [frame for frame in frames if not _of_standard_library(frame.filename)] or frames
    return "{}:{}".format(frames[-1].filename, frames[-1].lineno) if frames else None


def _of_standard_library(file: str) -> bool:
    folder = os.path.dirname(os.__file__) + os.sep
    packages = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
    return file.startswith(folder) and not any(name in file for name in packages)


def _traceback(error: BaseException) -> str:
    lines = traceback.format_list(_frames(error)) + traceback.format_exception_only(type(error), error)
    return _last_lines("".join(lines))


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LINES:])
