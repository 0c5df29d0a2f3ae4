"""Records Triton launches instead of making them: the kernel, its dtypes and constants, and the line of the launch.

Under `record()` a kernel launched on CPU tensors, or on fake ones, returns immediately; its outputs keep the contents
they were allocated with. So a library's forward and backward pass can be run just for its dtypes and launches. An
autotuned kernel is recorded with every configuration that its own pruning leaves.

Nothing is compiled here (compile.py), and only dtype, alignment and shape of a tensor are kept. A launch with wrong
arguments (a missing or unknown one) still raises.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import driver as triton_driver
from .arguments import Argument, stand_in

if TYPE_CHECKING:
    from ...arguments import Function

LaunchCallback = Callable[["Launch", Dict[str, object]], None]


@dataclasses.dataclass
class Configuration:
    """One way to compile a launch: arguments and options. An autotuned launch has several."""

    positional: Tuple[object, ...]
    """Stand-ins for the arguments, in the order of the kernel's parameters."""
    options: Dict[str, Any]
    """num_warps, num_stages and the like, as given at the launch."""
    tuned: Dict[str, object] = dataclasses.field(default_factory=dict)
    """The autotuner's choice: block sizes and options."""


@dataclasses.dataclass
class Launch:
    """A kernel launched with certain dtypes and constants, any number of times."""

    kernel: str
    """module:name"""
    file: str
    line: int
    call_site: str
    """file:line of the innermost frame outside Triton at the first launch."""
    arguments: Tuple[Argument, ...]
    """Arguments of the first configuration."""
    configurations: List[Configuration]
    autotuned: bool
    jit_function: Any
    count: int = 1

    def as_dict(self) -> Dict[str, object]:
        """JSON values: everything except live objects."""
        return {
            "kernel": self.kernel,
            "file": self.file,
            "line": self.line,
            "call_site": self.call_site,
            "arguments": [dataclasses.asdict(argument) for argument in self.arguments],
            "options": {name: repr(value) for name, value in self.configurations[0].options.items()},
            "configurations": len(self.configurations),
            "autotuned": self.autotuned,
            "count": self.count,
        }


@dataclasses.dataclass
class Recording:
    """The recorded launches, each kind once."""

    launches: List[Launch] = dataclasses.field(default_factory=list)
    notes: List[str] = dataclasses.field(default_factory=list)
    """Differences from Triton's own behaviour that a reader must know."""
    _by_key: Dict[object, Launch] = dataclasses.field(default_factory=dict)


class _Recorder:
    def __init__(self, recording: Recording, on_launch: Optional[LaunchCallback]) -> None:
        self.recording, self.on_launch = recording, on_launch
        self.tuning: Optional[List[Tuple[object, Configuration, Dict[str, object], object, object]]] = None
        self.tuned: Dict[str, object] = {}

    # replaces JITFunction.run
    def run(self, function: Any, *args: Any, **kwargs: object) -> None:
        grid = kwargs.pop("grid", None)
        for name in ("warmup", "stream", "device", "device_type"):
            kwargs.pop(name, None)
        names = list(function.arg_names)
        options = {name: value for name, value in kwargs.items() if name not in names}
        given = {name: value for name, value in kwargs.items() if name in names}
        bound = inspect.signature(function.fn).bind(*args, **given)
        bound.apply_defaults()
        live = dict(bound.arguments)
        if callable(grid):
            grid(dict(live))  # a grid function may raise, as on a GPU
        constants = {names[index] for index in function.constexprs}
        stand_ins, key, arguments = [], [], []
        for name in names:
            value, argument, part = stand_in(name, live[name], name in constants)
            stand_ins.append(value)
            arguments.append(argument)
            key.append(part)
        key.append(tuple(sorted((name, repr(value)) for name, value in options.items())))
        configuration = Configuration(tuple(stand_ins), options, dict(self.tuned))
        if self.tuning is not None:
            self.tuning.append((tuple(key), configuration, live, function, tuple(arguments)))
        else:
            self._keep([(tuple(key), configuration, live, function, tuple(arguments))], autotuned=False)

    # replaces Autotuner.run
    def tune(self, tuner: Any, *args: Any, **kwargs: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configurations = self._pruned(tuner, kwargs)
        nested, self.tuning = self.tuning, []
        try:
            for config in configurations:
                chosen = _chosen(config)
                self._pre_hook(tuner, config, {**tuner.nargs, **kwargs, **chosen})
                self.tuned = chosen
                tuner.fn.run(*args, **kwargs, **chosen)
            seen = self.tuning
        finally:
            self.tuning, self.tuned = nested, {}
            tuner.nargs = None
        if nested is not None:
            nested.extend(seen)
        elif seen:
            self._keep(seen, autotuned=True)

    def _pruned(self, tuner: Any, kwargs: Dict[str, Any]) -> List[object]:
        if len(tuner.configs) < 2:
            return list(tuner.configs)
        try:
            return list(tuner.prune_configs(kwargs)) or list(tuner.configs)
        except Exception as error:
            self.recording.notes.append(
                f"{tuner.base_fn.__name__ if hasattr(tuner, 'base_fn') else tuner}: its pruning of configurations "
                f"failed without a GPU ({type(error).__name__}: {error}); all were taken"
            )
            return list(tuner.configs)

    def _pre_hook(self, tuner: object, config: object, arguments: Dict[str, Any]) -> None:
        hook = getattr(
            config, "pre_hook", None
        )  # sets block shapes of tensor descriptors, which are part of the signature
        if hook is None:
            return
        try:
            hook(arguments)
        except Exception as error:
            self.recording.notes.append(f"a configuration's pre_hook failed: {type(error).__name__}: {error}")

    def _keep(self, seen: List[Tuple[Any, Configuration, Dict[str, Any], Any, Any]], autotuned: bool) -> None:
        function = seen[0][3]
        key = (id(function), tuple(part[0] for part in seen))
        launch = self.recording._by_key.get(key)
        if launch is None:
            unique = {part[0]: part[1] for part in seen}
            code = function.fn.__code__
            launch = Launch(
                kernel=f"{function.fn.__module__}:{function.fn.__qualname__}",
                file=code.co_filename,
                line=code.co_firstlineno,
                call_site=_call_site(),
                arguments=seen[0][4],
                configurations=list(unique.values()),
                autotuned=autotuned,
                jit_function=function,
                count=0,
            )
            self.recording._by_key[key] = launch
            self.recording.launches.append(launch)
        launch.count += 1
        if self.on_launch is not None:
            self.on_launch(launch, seen[0][2])


def _chosen(config: Any) -> Dict[str, object]:
    if hasattr(config, "all_kwargs"):
        return dict(config.all_kwargs())
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "num_ctas", 1) != 1:  # 2.2 and 2.3; 2.1 has none
        options["num_ctas"] = config.num_ctas
    if getattr(config, "enable_warp_specialization", False):
        options["enable_warp_specialization"] = True
    return {**config.kwargs, **options}


def _call_site() -> str:
    """The innermost frame outside this package and Triton: the line with `kernel[grid](...)`."""
    skipped = {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}  # simulate/
    triton = sys.modules.get("triton")
    where = getattr(triton, "__file__", None)
    if where:
        skipped.add(os.path.dirname(os.path.abspath(where)))
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(os.path.abspath(file).startswith(folder + os.sep) for folder in skipped) and file != "<string>":
            name = frame.f_code.co_name
            if name != "<lambda>" and not (name == "run" and "self" in frame.f_locals and _is_tuner(frame)):
                return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_tuner(frame: FrameType) -> bool:
    """True for frames of a library's own subclass of Triton's Autotuner, which are skipped as well."""
    return any(cls.__name__ == "Autotuner" for cls in type(frame.f_locals["self"]).__mro__)


_undo: List[Callable[[], None]] = []


@contextlib.contextmanager
def record(on_launch: Optional[LaunchCallback] = None) -> Iterator[Recording]:
    """Records every Triton launch within this context instead of making it. Without Triton it records nothing.

    on_launch(launch, arguments) is called at each launch, before it returns to its caller; `arguments` maps the
    kernel's parameter names to the live values (including tensors) of that call. Its errors go to the caller. Autotuned
    kernels call it once, with the arguments of their first configuration.
    """
    recording = Recording()
    if triton_driver.installed() is None:
        recording.notes.append("Triton is not installed: no launch was recorded")
        yield recording
        return
    recorder = _Recorder(recording, on_launch)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_patched(recorder))
        yield recording


@contextlib.contextmanager
def _patched(recorder: _Recorder) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def run(self: object, *args: object, **kwargs: object) -> None:
        return recorder.run(self, *args, **kwargs)

    def tune(self: object, *args: object, **kwargs: object) -> None:
        return recorder.tune(self, *args, **kwargs)

    changes: List[Tuple[Any, str, Function]] = [(Autotuner, "run", tune)]
    instances: List[Any] = []
    made: List[Any] = []  # kernels defined meanwhile: their own run was never generated
    if hasattr(JITFunction, "_make_launcher"):  # 2.1: every kernel has a generated run of its own
        import gc

        def make_launcher(self: object) -> Callable[..., None]:
            made.append(self)
            return lambda *args, **kwargs: recorder.run(self, *args, **kwargs)

        instances = [thing for thing in gc.get_objects() if type(thing) is JITFunction and "run" in vars(thing)]
        changes.append((JITFunction, "_make_launcher", make_launcher))
    else:
        changes.append((JITFunction, "run", run))
    saved = [(thing, thing.run) for thing in instances]
    for thing in instances:
        thing.run = (lambda function: lambda *a, **k: recorder.run(function, *a, **k))(thing)

    patches = contextlib.ExitStack()
    patches.enter_context(triton_driver.replaced(*changes))

    def undo() -> None:
        patches.close()
        for thing, original in saved:
            thing.run = original
        for thing in made:
            thing.run = thing._make_launcher()

    _undo.append(undo)
    try:
        yield
    finally:
        if undo in _undo:
            _undo.remove(undo)
            undo()


def stop_recording() -> None:
    """Restores Triton's own functions, in a child that has to compile while its parent records."""
    while _undo:
        _undo.pop()()
