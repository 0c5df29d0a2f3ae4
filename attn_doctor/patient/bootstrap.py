"""Starts one task in the patient's interpreter: `PYTHON bootstrap.py REQUEST.json ANSWERS_DIR`.

REQUEST.json contains `{"task": NAME, ...}`; the task is `main(request, answers)` of the module NAME in this folder.
Answers are files in ANSWERS_DIR, never standard output: torch and flash-attn print there. Exit status 2 and one line on
standard error: the request, the folder or the interpreter cannot be used. Any Python since 2.7 can parse this file, so
that an old one gets a clear error message.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # types are in comments here: Python 2.7 has no annotations
    from types import ModuleType  # noqa: F401
    from typing import Any, Dict, List, Tuple  # noqa: F401

_NAME = "_attn_doctor_patient"


def _leave_own_folder():
    # type: () -> str
    # As a script's folder this one stands first on sys.path: its trace/ and kernels/ would shadow the
    # standard `trace` and the patient's `kernels`. -P would prevent it, but exists only from Python 3.11
    # on. Compared resolved: Python puts the resolved path there, while __file__ keeps the symbolic links of
    # the command line.
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(folder):
        del sys.path[0]
    return folder


class _Unusable(Exception):
    pass


def _end_with_parent():
    # type: () -> None
    """Makes the kernel kill this process when the doctor dies: otherwise, after the doctor was killed (SIGKILL, out of
    memory), an import that hangs would wait for ever."""
    try:
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, linux/prctl.h
    except (ImportError, OSError, AttributeError):
        pass


def _request(arguments, quick_json):
    # type: (List[str], ModuleType) -> Tuple[Dict[str, Any], str]
    if len(arguments) != 2:
        raise _Unusable("usage: bootstrap.py REQUEST.json ANSWERS_DIR")
    path, answers = (os.path.abspath(argument) for argument in arguments)
    try:
        with open(path, "rb") as file:
            request = quick_json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise _Unusable("request {}: {}".format(path, error))
    task = request.get("task") if isinstance(request, dict) else None
    if not isinstance(task, str) or not all(part.isidentifier() for part in task.split(".")):
        raise _Unusable("request {} names no task".format(path))
    try:
        # Not tempfile, which loads random, shutil and bz2: a quarter of the time of a short task.
        probe = os.path.join(answers, ".room-{}".format(os.getpid()))
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
    except OSError as error:
        raise _Unusable("answers folder {}: {}".format(answers, error))
    return request, answers


def _load(folder):
    # type: (str) -> None
    """Loads this folder as a package, under a name that no package of the patient has."""
    # Not importlib.util, which loads contextlib and collections.
    from importlib.machinery import ModuleSpec, SourceFileLoader

    file = os.path.join(folder, "__init__.py")
    loader = SourceFileLoader(_NAME, file)
    spec = ModuleSpec(_NAME, loader, origin=file, is_package=True)
    package = type(sys)(_NAME)
    package.__dict__.update(
        __spec__=spec, __loader__=loader, __file__=file, __package__=_NAME, __path__=spec.submodule_search_locations
    )
    package.__path__.append(folder)
    sys.modules[_NAME] = package
    loader.exec_module(package)


def _module(name):
    # type: (str) -> ModuleType
    wanted = _NAME + "." + name
    try:
        __import__(wanted)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (wanted + ".").startswith(str(error.name) + "."):
            raise _Unusable("no such task: {}".format(name))
        raise
    return sys.modules[wanted]


def main():
    # type: () -> int
    folder = _leave_own_folder()
    if sys.version_info < (3, 9):
        sys.stderr.write(
            "Python {} is too old: 3.9 is the oldest that can be examined\n".format(sys.version.split()[0])
        )
        return 2
    # Writes nothing but answers: no compiled files in the patient's packages, by this process or its children.
    sys.dont_write_bytecode = True
    try:
        _load(folder)
        request, answers = _request(sys.argv[1:], _module("quick_json"))
        if request["task"] != "interpreter":  # it imports no package of the patient, and must answer at once
            _end_with_parent()
        if request.get("in_place_of"):
            _module("touched").stand_in(request["in_place_of"])
        task = _module(request["task"])
        if not hasattr(task, "main"):
            raise _Unusable("no such task: {}".format(request["task"]))
    except _Unusable as error:
        sys.stderr.write(str(error) + "\n")
        return 2
    sys.argv = sys.argv[:1]  # packages that read arguments on import must not find ours
    task.main(request, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
