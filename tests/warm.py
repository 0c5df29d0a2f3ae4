"""Programs that start where torch is imported already: each is a process of its own, forked from one that did it.

For tests that are not about what an import or a start of the interpreter does: importing torch takes a second of
processor time, and its regular end another third of one. What torch was asked by a variable on import, and what a
planted module or a `.pth` file does to it, needs a start of its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

NURSERY = """
import atexit, contextlib, gc, json, os, runpy, sys, threading, traceback

for name in sys.argv[1:]:
    __import__(name)
own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
base = [entry for entry in sys.path[1:] if entry not in own]  # behind the empty one of -c
gc.collect()
gc.freeze()
asked, told = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")


def work(one):
    os.setsid()
    for number, name in enumerate((os.devnull, one["out"], one["err"])):
        opened = os.open(name, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(one["env"])
    os.chdir(one["cwd"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    script, *_ = sys.argv = one["words"]
    more = os.environ.get("PYTHONPATH", "")
    sys.path[:] = [os.path.dirname(os.path.realpath(script)), *(more.split(os.pathsep) if more else ()), *base]
    sys.path_importer_cache.clear()
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        import sitecustomize
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except BaseException as error:
        told = error.__traceback__
        while told is not None and told.tb_frame.f_code.co_filename != script:
            told = told.tb_next  # as if the script had been started, and not run by this one
        traceback.print_exception(type(error), error, told or error.__traceback__)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


for line in asked:
    one = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            told.close()
            asked.close()
            work(one)
        finally:
            os._exit(70)
    print(child, file=told, flush=True)
    print(os.waitpid(child, 0)[1], file=told, flush=True)
"""


class Nursery:
    """One process that has imported these modules and waits to be asked for a copy of itself."""

    def __init__(self, modules: Sequence[str], path: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRITON_"))}
        # A fork copies one thread: numpy's OpenBLAS starts none.
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
            env={**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def run(
        self, words: Sequence[object], *, env: Mapping[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """`python WORDS` as subprocess.run with its output captured as text."""
        command = [str(word) for word in words]
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            asked = {"words": command, "env": dict(env), "cwd": str(cwd), "out": out.name, "err": err.name}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
            until = time.monotonic() + timeout
            pid = int(self._line(60.0))
            try:
                status = os.waitstatus_to_exitcode(int(self._line(until - time.monotonic())))
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._line(60.0)
                raise subprocess.TimeoutExpired(command, timeout) from None
            return subprocess.CompletedProcess(
                command, status, out.read().decode(errors="replace"), err.read().decode(errors="replace")
            )

    def _line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        text = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not text.endswith(b"\n"):
                if not selector.select(max(0.0, seconds)):
                    raise TimeoutError
                one = os.read(self._process.stdout.fileno(), 1)
                assert one, "the process that had imported torch died"
                text += one
        return text.decode()


@functools.cache
def nursery(*modules: str, path: str = "") -> Nursery:
    """The one of this process of the tests; it ends with it, as its input does."""
    return Nursery(modules, path)
