"""Callbacks of trainers: they start a guard, end its steps, and stop it. Each is made of the trainer's own class."""

from __future__ import annotations

import importlib
from typing import Any, Protocol


class Steps(Protocol):
    """What a callback needs of a guard."""

    def start(self) -> object: ...

    def step(self) -> None: ...

    def stop(self) -> None: ...


def for_transformers(guard: Steps) -> Any:
    """For transformers' Trainer: a step is one of the optimizer, with all the batches that it gathers."""
    import transformers

    class AttentionGuard(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            guard.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            guard.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            guard.stop()

    return AttentionGuard()


def for_lightning(guard: Steps) -> Any:
    """For Lightning, under either of its names: a step is one batch."""
    try:
        lightning = importlib.import_module("lightning")
    except ImportError:
        lightning = importlib.import_module("pytorch_lightning")

    class AttentionGuard(lightning.Callback):  # type: ignore[misc, name-defined, unused-ignore]
        def on_train_start(self, trainer: Any, module: Any) -> None:
            guard.start()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
            guard.step()

        def on_train_end(self, trainer: Any, module: Any) -> None:
            guard.stop()

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            guard.stop()

    return AttentionGuard()
