"""Runs every probe on one target and combines their facts.

Slow probes start first: the patient imports torch while its files are read here. Modules that --quick does not need are
imported later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attn_doctor.machine import faults
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact, FactSet
from attn_doctor.probe import not_examined
from attn_doctor.probe.binaries import extensions
from attn_doctor.probe.host import host_facts, node, nvcc
from attn_doctor.probe.host.gpus import GpuQuery
from attn_doctor.probe.live import interpreter
from attn_doctor.probe.packages import packages, patches, ptxas, torch_files
from attn_doctor.probe.probes import Probe, run
from attn_doctor.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from attn_doctor.probe.live.imports_and_torch import Examination  # not needed by --quick
    from attn_doctor.probe.live.kept_process import KeptProcess

T = TypeVar("T")

#: Without a persistence daemon the driver initializes each GPU in turn: 16 of them take longer than 10 s.
_DRIVER_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRequest:
    """Options of an examination."""

    quick: bool = False
    """Imports and runs nothing of the patient."""
    timeout: float = 60.0
    """Seconds for each child."""
    configs: tuple[Path, ...] = ()
    simulated_gpu: Mapping[str, Any] | None = None
    samples: bool = True
    """Also runs the samples of the installed libraries."""
    kept: KeptProcess | None = None
    """Where the patient's code runs, when that process is to be asked again after a change."""


class NodeQuestions:
    """The queries to the node that run in processes, the driver and nvcc: started first, waited for last.

    They are answered once: who examines again after a change to files hands the same questions on.
    """

    def __init__(self, *, folder: Path) -> None:
        self.environment = dict(os.environ)
        self._facts: tuple[Fact, ...] | None = None
        self._gpus = faults.survive('probe "gpus"', lambda: GpuQuery(self.environment, folder=folder), _NotStarted)
        self._toolkit = faults.survive('probe "nvcc"', lambda: nvcc.start(self.environment, folder=folder), _NotStarted)

    @property
    def gpus(self) -> GpuQuery:
        """The driver's answer. Raises NotLooked when the query could not be started."""
        return _started(self._gpus)

    @property
    def toolkit(self) -> nvcc.Toolkit:
        """The CUDA toolkit. Raises NotLooked when the query could not be started."""
        return _started(self._toolkit)

    def facts(self, known: FactSet, wanted: ExaminationRequest) -> tuple[Fact, ...]:
        """Waits for the answers. `known`: the facts so far."""
        if self._facts is None:
            hint = known.text("node.gpu_hint")
            patience = min(wanted.timeout, _DRIVER_TIMEOUT)
            quick = wanted.quick
            self._facts = (
                *run(Probe("gpus", lambda: self.gpus.facts(patience, hint=hint, quick=quick), ("host/gpus",))),
                *run(
                    Probe(
                        "host",
                        lambda: host_facts.probe(self.gpus.host_answer(patience, quick=quick)),
                        ("host/host_facts",),
                    )
                ),
                *run(Probe("nvcc", lambda: self.toolkit.facts(min(wanted.timeout, 10.0)), ("host/nvcc",))),
            )
        return self._facts

    def end(self) -> None:
        """Ends the queries that still run."""
        for asked in (self._gpus, self._toolkit):
            if not isinstance(asked, _NotStarted):
                asked.end()


@dataclass(frozen=True, slots=True)
class _NotStarted:
    """Replaces a query that could not be started."""

    reason: str


def _started(asked: T | _NotStarted) -> T:
    if isinstance(asked, _NotStarted):
        raise faults.NotLooked(asked.reason)
    return asked


def examine(
    target: Target,
    wanted: ExaminationRequest,
    *,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
    asked: NodeQuestions | None = None,
) -> FactSet:
    """Every fact about the target and its node. `folder` is private to this examination; `asked`: questions to the
    node that were begun, or answered, before it.

    Raises BadInput for a configuration that cannot be read.
    """
    with contextlib.ExitStack() as stack:
        if asked is None:
            asked = NodeQuestions(folder=folder)
        stack.callback(asked.end)
        configured = run(Probe("configurations", lambda: _configured(wanted.configs), ("configs/configs",)))
        say("reading metadata")
        taken = faults.survive('probe "packages"', lambda: packages.take_inventory(target.search_path), _NotStarted)
        begun = None
        if not wanted.quick:
            begun = faults.survive(
                'probe "imports"', lambda: _begin_imports(target, wanted, _started(taken), folder), _NotStarted
            )
            if not isinstance(begun, _NotStarted):
                stack.callback(begun.end)
        facts: list[Fact] = []
        for probe in _probes(target, wanted, asked, taken, say):
            facts += run(probe)
        facts += configured
        facts += asked.facts(FactSet(facts), wanted)
        facts += not_examined.not_traced()
        if wanted.quick:
            facts += not_examined.not_run("not asked for (--quick)")
        else:
            no_gpu = FactSet(facts).value("listed.gpu") == 0
            facts += run(_imports(begun, say, no_gpu=no_gpu))
            facts += run(_loaded(begun, taken, target, asked.environment))
    return FactSet(facts)


def _probes(
    target: Target,
    wanted: ExaminationRequest,
    asked: NodeQuestions,
    taken: packages.Inventory | _NotStarted,
    say: Callable[[str], None],
) -> Iterator[Probe]:
    """The probes that only read files, in order."""
    environment = asked.environment
    yield Probe("node", lambda: node.probe(environment), ("host/node",))
    yield Probe("interpreter", lambda: interpreter.probe(target), ("live/interpreter",))
    yield Probe(
        "packages", lambda: packages.probe(_started(taken), target.told), ("packages/packages", "packages/requirements")
    )
    yield Probe("patches", lambda: patches.probe(_started(taken)), ("packages/patches",))
    yield Probe("torch's files", lambda: torch_files.probe(_started(taken).modules), ("packages/torch_files",))
    yield Probe(
        "ptxas",
        lambda: ptxas.probe(_started(taken).modules, environment, quick=wanted.quick),
        ("packages/ptxas",),
    )
    say("reading binaries")
    yield Probe(
        "binaries",
        lambda: extensions.probe(_started(taken), target, environment),
        ("binaries/extensions", "binaries/cuda_libraries", "binaries/torch_libraries"),
    )


def _begin_imports(
    target: Target, wanted: ExaminationRequest, inventory: packages.Inventory, folder: Path
) -> Examination:
    from attn_doctor.probe.live import imports_and_torch

    return imports_and_torch.Examination(
        target,
        modules=inventory.imports(),
        torch="torch" in inventory.modules or inventory.of("torch") is not None,
        timeout=wanted.timeout,
        simulated_gpu=wanted.simulated_gpu,
        folder=folder,
        samples=wanted.samples,
        kept=wanted.kept,
    )


def _imports(begun: Examination | _NotStarted | None, say: Callable[[str], None], *, no_gpu: bool) -> Probe:
    def look() -> tuple[Fact, ...]:
        assert begun is not None
        return _started(begun).facts(say, no_gpu=no_gpu)

    return Probe("imports", look, ("live/imports_and_torch", "live/library_samples"), more=not_examined.FAILED_CALL)


def _loaded(
    begun: Examination | _NotStarted | None,
    taken: packages.Inventory | _NotStarted,
    target: Target,
    environment: Mapping[str, str],
) -> Probe:
    def look() -> tuple[Fact, ...]:
        from attn_doctor.probe.live import loaded_libraries

        assert begun is not None
        return loaded_libraries.probe(_started(begun).loaded(), _started(taken), target, environment)

    return Probe("loaded libraries", look, ("live/loaded_libraries",))


def _configured(files: tuple[Path, ...]) -> tuple[Fact, ...]:
    if not files:
        return not_examined.no_configurations()
    from attn_doctor.probe.configs import configs

    return configs.probe(files)
