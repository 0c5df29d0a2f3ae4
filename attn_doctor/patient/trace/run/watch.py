"""Records a running program from inside: `with Watch(tell): model(x)`, and reports the first broken attention call.

For a user's own program: nothing is redirected or replaced, no second run is made (it could repeat an all-reduce or
fill a cache twice), and nothing is raised. Latent promotions therefore stay unknown, and the result notes that.

Elsewhere: printing, and choosing which rank prints.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from typing import TYPE_CHECKING, Callable, List, Optional

from ...libraries import flash_attn_2, version_of
from ...simulate.cuda import simulated_gpu
from ..meet import autograd_function, functions, raising_frame, sdpa, triton_launch
from ..meet.attention import Attention, Conditions, Record
from ..read import result
from ..record.modules import Modules
from ..record.recorder import Recorder
from ..record.uncompiled import keep_out
from ..rules import GPU, Rules
from .session import Recording

if TYPE_CHECKING:
    from ..answer import Answer

Tell = Callable[["Answer"], None]

_NO_RERUN = (
    "what else is promoted was not looked for: under watch nothing is run a second time; "
    "a traced run (attn-doctor trace) looks for it"
)

_OTHER_THREAD = (
    "it ran in another thread than the one that watches, where only the call itself is seen: "
    "watch in the thread that runs the model, or trace the program (attn-doctor trace)"
)


class Watch:
    """`start()` ... `stop()`, or a context manager. Single use, one thread.

    `tell` is called once with a result (schema in ../__init__) for each kind of broken attention call; `results` keeps
    them. An exception of the program passes through unchanged; one of ours is stored in `trouble` and not raised.
    """

    def __init__(self, tell: Optional[Tell] = None, limit: int = 8) -> None:
        self.tell = tell
        self.limit = limit
        self.results: List[Answer] = []
        self.trouble: Optional[str] = None
        """Why nothing is recorded, or the error during recording."""
        self.recording: Optional[Recording] = None
        self._stack: Optional[contextlib.ExitStack] = None
        self._thread = 0

    def start(self) -> Watch:
        try:
            self._start()
        except Exception:
            self.trouble = traceback.format_exc()
            self._stack = None
        return self

    def _start(self) -> None:
        import torch

        keep_out()
        self._thread = threading.get_ident()
        recorder = Recorder()
        on_gpu = torch.cuda.is_available()
        recorder.autocast_device = "cuda" if on_gpu else "cpu"
        capability = torch.cuda.get_device_capability() if on_gpu else (0, 0)
        of_flash_attn = version_of(flash_attn_2.LIBRARY) or flash_attn_2.LIBRARY.newest
        conditions = Conditions(capability=capability, simulated=False, flash_attn_version=of_flash_attn)
        if on_gpu:
            with contextlib.suppress(ValueError):  # newer than the table
                conditions.gpu = simulated_gpu.from_request({"compute_capability": "{}.{}".format(*capability)})
        attention = Attention(recorder, conditions)
        attention.on_record = self._seen
        modules = Modules(recorder)
        recording = Recording(recorder, attention, modules)
        with contextlib.ExitStack() as stack:
            stack.enter_context(functions.hooked(attention))
            stack.enter_context(modules.watching())
            stack.enter_context(sdpa.hooked(attention))
            stack.enter_context(autograd_function.hooked(attention))
            stack.enter_context(triton_launch.hooked(recording.launches))
            stack.enter_context(recorder)
            self.recording = recording
            self._stack = stack.pop_all()

    def stop(self, error: Optional[BaseException] = None) -> List[Answer]:
        """Stops recording. `error` is the exception by which the program left, if any."""
        stack, self._stack = self._stack, None
        if stack is not None:
            try:
                stack.close()
            except Exception:
                self.trouble = traceback.format_exc()
        if error is not None and self.recording is not None and isinstance(error, Exception):
            try:
                self.recording.error = error
                raising_frame.read(self.recording)
            except Exception:
                self.trouble = traceback.format_exc()
        return self.results

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self.stop(error)

    def _seen(self, record: Record) -> None:
        if not record.broken or not record.first or len(self.results) >= self.limit:
            return
        try:
            found = self.describe(record)
            self.results.append(found)
            if self.tell is not None:
                self.tell(found)
        except Exception:
            self.trouble = traceback.format_exc()

    def describe(self, record: Record) -> Answer:
        import torch

        recording = self.recording
        assert recording is not None  # a call was seen
        with recording.recorder.silence(), torch._C.DisableTorchFunction():
            promotions = result.Promotions()
            attention = [result.describe(record, promotions)]
        followed = any(operand["path"] for operand in attention[0]["operands"].values())
        elsewhere = not followed and threading.get_ident() != self._thread
        on_gpu = torch.cuda.is_available()
        rules = Rules(GPU) if on_gpu else None
        words = (
            "ran as the program runs, on a GPU"
            if on_gpu
            else ("ran as the program runs, on a machine without a GPU: CPU rules, which differ from CUDA's")
        )
        return {
            "schema": "trace/1",
            "outcome": "watched",
            "verdict": record.verdict,
            "entry": None,
            "rules": {
                "name": rules.name if rules is not None else "cpu",
                "words": words,
                "gpu": None,
                "autocast_source": None,
                "torch": str(torch.__version__),
                "fake": False,
                "not_simulated": [],
                "stood_in": [],
            },
            "attention": attention,
            "forms": [],
            "promotions": promotions.found,
            "counterfactual": {
                "runs": [],
                "clean_after": None,
                "remedies": [],
                "words": _OTHER_THREAD if elsewhere else _NO_RERUN,
            },
            "failure": None,
            "launches": [],
            "slow_paths": [],
            "progress": recording.progress(),
            "error": None,
            "judged": None,
            "seconds": None,
        }
