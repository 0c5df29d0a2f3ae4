"""Runs every probe on one target and puts their facts together.

What takes long is started first: the patient imports torch while its files are read here. What --quick has
no use for is not even imported.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact, FactSet
from attn_doctor.probe import (
    binaries,
    interpreter,
    node,
    packages,
    patches,
    torch_files,
    unasked,
)
from attn_doctor.probe.gpus import GpuQuery

#: Without a persistence daemon the driver wakes each GPU in turn: 16 of them take longer than 10 s.
_DRIVER_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to look at."""

    quick: bool = False
    """Nothing is imported or run."""
    timeout: float = 60.0
    """Seconds for each child."""
    configs: tuple[Path, ...] = ()
    virtual_gpu: Mapping[str, Any] | None = None
    samples: bool = True
    """The samples of the installed libraries as well."""


class NodeQuestions:
    """What is asked of the node by processes, the driver and nvcc: started first, waited for last."""

    def __init__(self, *, folder: Path) -> None:
        self.environment = dict(os.environ)
        self.gpus = GpuQuery(self.environment, folder=folder)
        self.toolkit = node.start_nvcc(self.environment, folder=folder)

    def end(self) -> None:
        """Ends what still runs."""
        self.gpus.end()
        self.toolkit.end()


def examine(
    target: Target,
    wanted: Wanted,
    *,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
    asked: NodeQuestions | None = None,
) -> FactSet:
    """Every fact of the target and its node. `folder` is private to this examination.

    Raises BadInput for a configuration that cannot be read.
    """
    with contextlib.ExitStack() as stack:
        if asked is None:
            asked = NodeQuestions(folder=folder)
        stack.callback(asked.end)
        environment = asked.environment
        config_facts = _configured(wanted.configs)
        say("reading metadata")
        inventory = packages.take_inventory(target.search_path)
        inside = None
        if not wanted.quick:
            from attn_doctor.probe import inside_answers

            inside = inside_answers.Examination(
                target,
                modules=inventory.imports(),
                torch="torch" in inventory.modules or inventory.of("torch") is not None,
                timeout=wanted.timeout,
                virtual_gpu=wanted.virtual_gpu,
                folder=folder,
                samples=wanted.samples,
            )
            stack.callback(inside.end)
        facts = [
            *node.probe(environment),
            *interpreter.probe(target),
            *packages.probe(inventory, target.told),
            *patches.probe(inventory),
            *torch_files.probe(inventory.modules),
        ]
        say("reading binaries")
        facts += binaries.probe(inventory, target, environment)
        facts += config_facts
        hint = FactSet(facts).text("node.gpu_hint")
        facts += asked.gpus.facts(min(wanted.timeout, _DRIVER_TIMEOUT), hint=hint)
        facts += asked.toolkit.facts(min(wanted.timeout, 10.0))
        facts += unasked.not_traced()
        facts += inside.facts(say) if inside is not None else unasked.not_run("not asked for (--quick)")
    return FactSet(facts)


def _configured(files: tuple[Path, ...]) -> tuple[Fact, ...]:
    if not files:
        return unasked.no_configurations()
    from attn_doctor.probe import configs

    return configs.probe(files)
