"""One complete recording: enters rules, recorder and hooks in order, and leaves them again."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

import torch

from ..meet import autograd_function, eager, functions, raising_frame, sdpa, triton_launch
from ..meet.attention import Attention, Conditions, Record, StopTrace
from ..record import frames, strictness
from ..record.modules import Modules
from ..record.recorder import Heal, Recorder
from ..rules import ON_FAKE, Rules

if TYPE_CHECKING:
    from ...arguments import Function, Keywords, Positional
    from ...simulate.triton.record import Launch
    from ...simulate.triton.record import Recording as LaunchRecording
    from ..answer import Progress


class Recording:
    """The results of one run."""

    def __init__(self, recorder: Recorder, attention: Attention, modules: Modules) -> None:
        self.recorder = recorder
        self.attention = attention
        self.modules = modules
        self.launches = triton_launch.Launches(attention)
        self.error: Optional[BaseException] = None
        self.stopped = False
        self.seconds = 0.0

    @property
    def records(self) -> List[Record]:
        return self.attention.records

    @property
    def broken(self) -> List[Record]:
        return [record for record in self.records if record.broken]

    def progress(self) -> Progress:
        rec = self.recorder
        return {
            "ops": rec.ops,
            "attention_calls": self.attention.total,
            "module_calls": rec.modules_entered,
            "triton_launches": self.launches.count,
            "last": frames.described(rec.last.site) if rec.last is not None else None,
            "module": rec.last.module if rec.last is not None else None,
        }


class Session:
    """Records runs under one set of rules. Enter it before user code is imported."""

    def __init__(self, rules: Rules, conditions: Conditions) -> None:
        self.rules = rules
        self.conditions = conditions
        self.recording: Optional[Recording] = None
        self.kernels: Optional[LaunchRecording] = None
        """The Triton launches of all runs, in the form for compile.py."""
        self.guesses: Dict[Optional[frames.Site], bool] = {}
        """Conditions on values that hollow tensors lack, by their place."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.rules.hold())
            self.conditions.gpu = self.rules.virtual
            self.current = _SWITCH
            if self.rules.simulated:
                from ...simulate.triton.record import record

                self.kernels = stack.enter_context(record(self._launched))
            if self.rules.simulated or self.conditions.missing:
                from ..stand_in import finder

                stood_in = stack.enter_context(finder.installed(self.current, self.conditions))
                self.rules.stood_in = stood_in.words
            stack.enter_context(functions.hooked(self.current))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)

    def _launched(self, launch: Launch, arguments: Dict[str, Any]) -> None:
        if self.recording is not None:
            self.recording.launches.note(launch.kernel.rsplit(":", 1)[-1], arguments)

    def _truth(self, func: Function, args: Positional, kwargs: Keywords) -> object:
        """The truth value for `if tensor:` on a tensor without a value: False, or True after False led to an error."""
        try:
            return func(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ not in ("DataDependentOutputException", "GuardOnDataDependentSymNode"):
                raise
            return self.guesses.setdefault(frames.site_of(frames.caller(2)), False)

    def other_guess(self) -> bool:
        """Changes the newest condition that was taken as False to True; returns False when none is left."""
        for site in reversed(list(self.guesses)):
            if not self.guesses[site]:
                self.guesses[site] = True
                return True
        return False

    def tell_guesses(self) -> None:
        """Adds the guesses to the rules' notes."""
        for site, truth in self.guesses.items():
            where = "{}:{}".format(*(site or ("?", "?"))[:2])
            note = "a condition on a value that is not known here was taken for {} at {}".format(truth, where)
            if note not in self.rules.notes:
                self.rules.notes.append(note)

    @contextlib.contextmanager
    def preparing(self) -> Iterator[None]:
        """For preparation code: requests for a GPU are answered, and nothing is recorded."""
        recorder = Recorder()
        recorder.paused = 1
        if self.rules.redirect is not None:
            self.rules.redirect.attach(recorder)
        with self.rules.fake_mode(), recorder:
            if self.rules.hollow is not None:
                recorder.special.update(self.rules.hollow.answers())
            yield

    @contextlib.contextmanager
    def recorded(
        self,
        heals: Optional[Dict[Heal, torch.dtype]] = None,
        on_record: Optional[Callable[[Record], None]] = None,
    ) -> Iterator[Recording]:
        """A recording of the code in this context; exceptions are stored in `recording.error`."""
        recorder = Recorder()
        attention = Attention(recorder, self.conditions)
        attention.on_record = on_record
        modules = Modules(recorder)
        recording = self.recording = Recording(recorder, attention, modules)
        if heals:
            recorder.heals = dict(heals)
            recorder.heal_names = frozenset(key[3] for key in heals)
        # Simulated rules keep autocast's state under the device of the tensors that represent the GPU's.
        recorder.autocast_device = "cpu" if self.rules.simulated else "cuda"
        if self.rules.redirect is not None:
            self.rules.redirect.attach(recorder)
        if self.rules.name == ON_FAKE:
            recorder.strict = strictness.check
            recorder.special[torch.Tensor.__bool__] = self._truth
        started = time.perf_counter()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.current.to(attention))
            stack.enter_context(self.rules.fake_mode())
            if self.rules.hollow is not None:
                recorder.special.update(self.rules.hollow.answers())
            stack.enter_context(modules.watching())
            stack.enter_context(sdpa.hooked(attention))
            stack.enter_context(autograd_function.hooked(attention))
            if not self.rules.simulated:
                stack.enter_context(triton_launch.hooked(recording.launches))
            stack.enter_context(recorder)
            recorder.at_product = eager.Eager(attention)
            try:
                yield recording
            except StopTrace:
                recording.stopped = True
            except (Exception, SystemExit) as error:
                recording.error = error
                raising_frame.read(recording)
            finally:
                recording.seconds = time.perf_counter() - started


class _Switch:
    """Forwards to the attention of the active recording: functions are wrapped once, before any recording.

    One for the process: frameworks keep functions that they imported during an earlier session.
    """

    def __init__(self) -> None:
        self.attention: Optional[Attention] = None

    @contextlib.contextmanager
    def to(self, attention: Attention) -> Iterator[None]:
        before, self.attention = self.attention, attention
        try:
            yield
        finally:
            self.attention = before

    @property
    def recorder(self) -> Any:
        return self.attention.recorder if self.attention is not None else _IDLE

    @property
    def conditions(self) -> Conditions:
        return self.attention.conditions if self.attention is not None else Conditions()

    def attend(self, name: str, library: str, tensors: Any, contract: Any, run: Any, **kwargs: Any) -> object:
        if self.attention is None:
            return run()
        return self.attention.attend(name, library, tensors, contract, run, **kwargs)


class _Idle:
    paused = 1
    heals: Dict[Heal, torch.dtype] = {}


_IDLE = _Idle()
_SWITCH = _Switch()


def seeded(function: Callable[[], object]) -> Callable[[], object]:
    """`function` with torch's seed set first, so that a second run gets the same values."""

    def run() -> object:
        torch.manual_seed(0)
        return function()

    return run
