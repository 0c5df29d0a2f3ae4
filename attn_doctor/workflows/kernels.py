"""`check --kernels`: reads its options, runs the trials, and adds their facts."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.formats import calls_v1
from attn_doctor.machine.files import expanded
from attn_doctor.machine.target import Target
from attn_doctor.model.dtypes import SHORT, SPELLED
from attn_doctor.model.facts import FactSet
from attn_doctor.model.gpu_state import PlannedGpu
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.probe.host import xids
from attn_doctor.probe.kernels import kernel_facts, kernel_shares
from attn_doctor.probe.kernels import trials as kernels
from attn_doctor.probe.kernels.known_kernels import BACKENDS, Mode
from attn_doctor.probe.probes import Probe
from attn_doctor.probe.probes import run as run_probe
from attn_doctor.probe.trace import call_facts, compiled_kernels
from attn_doctor.quick_dataclasses import asdict, replace
from attn_doctor.recipes.data.gpu_table import NamedGpu


def asked(
    mode: Mode | None,
    backends: tuple[str, ...],
    dtypes: tuple[str, ...],
    budget: float | None,
    seed: int | None,
    *,
    quick: bool,
    replay: Path | None = None,
) -> kernels.TrialRequest | None:
    """The requested trials, or None. `replay`: a file of recorded calls, which are tried in place of the usual trials.

    Raises BadInput for unknown names and for contradicting options.
    """
    if mode is None and replay is None:
        given = {"--backend": backends, "--dtype": dtypes, "--kernels-budget": budget, "--seed": seed is not None}
        for option, value in given.items():
            if value:
                raise BadInput(f"{option} is about --kernels", about=option, hint="Add --kernels, or --kernels full.")
        return None
    if quick:
        raise BadInput(
            "--quick runs nothing, and --kernels and --replay run kernels",
            about="--quick",
            hint="Leave out one of them; `--kernels quick` is the short form of the trials.",
        )
    named = [own for text in backends for own in _backends(text)]
    return kernels.TrialRequest(
        mode="replay" if replay is not None or mode is None else mode.value,
        seed=seed if seed is not None else secrets.randbelow(10**6),
        budget=budget,
        backends=tuple(dict.fromkeys(name for name, _ in named)),
        folders=tuple(dict.fromkeys(str(place) for _, place in named if place is not None)),
        dtypes=tuple(dict.fromkeys(_dtype(name) for text in dtypes for name in text.split(","))),
        replay=() if replay is None else calls_v1.read(expanded(replay)),
    )


def run(
    wanted: kernels.TrialRequest,
    facts: FactSet,
    target: Target,
    *,
    gpu: NamedGpu | None,
    timeout: float,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[KernelTrials, FactSet]:
    """The trials, and the facts including those of the trials."""
    from attn_doctor.recipes.data import measured  # loads pydantic, which only this needs

    if gpu is not None:
        wanted = replace(wanted, gpu=PlannedGpu(**asdict(gpu)))
    trials = kernels.run(target, wanted, timeout=timeout, folder=folder, environment=dict(os.environ), say=say)
    trials = replace(trials, xid_meanings=xids.meanings(trials, measured.xids()))
    shares = measured.shares(facts.text("torch.version"))
    probes = (
        Probe("kernels", lambda: kernel_facts.facts(trials), ("kernels",)),
        Probe("shares", lambda: kernel_shares.facts(trials, shares), ("kernel_shares",)),
        Probe("xids", lambda: xids.facts(trials), ("xids",)),
        Probe("compiled", lambda: compiled_kernels.facts(trials.compiled), ("compiled_kernels",)),
    )
    found = [fact for probe in probes for fact in run_probe(probe)]
    wrong = kernel_facts.wrong_calls(trials)
    if wanted.replay or wrong:
        capability = gpu.compute_capability if gpu is not None else facts.value("gpu.0.compute_capability")
        known = capability if isinstance(capability, str) else None
        how = "recorded by trace --record" if wanted.replay else "calls of trials that came out wrong (--kernels)"
        found += call_facts.facts([*wanted.replay, *wrong], how=how, capability=known)
    return trials, facts.with_facts(found)


def _backends(text: str) -> list[tuple[str, Path | None]]:
    """The backends for a name, each with the folder that is searched last for its module."""
    found: list[tuple[str, Path | None]] = []
    for name in (part.strip() for part in text.split(",")):
        if ":" in name:
            found.append(_own(name))
            continue
        names = [known for known in BACKENDS if known == name or known.startswith(name + "-")]
        if not names:
            close = difflib.get_close_matches(name, BACKENDS, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise BadInput(
                f"there is no kernel {name!r}",
                about=f"--backend {text}",
                hint=f"{hint}Known: {', '.join(BACKENDS)}; or module:function for one of your own.",
            )
        found += [(known, None) for known in names]
    return found


def _own(name: str) -> tuple[str, Path]:
    """A user's function, given by its import path or by its file."""
    module, _, function = name.rpartition(":")
    folder = Path.cwd()
    if module.endswith(".py"):
        file = expanded(Path(module)).absolute()
        if not file.is_file():
            raise BadInput("there is no such file", about=f"--backend {name}", hint="Give FILE.py:function.")
        module, folder = file.stem, file.parent
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise BadInput(
            "it names no function", about=f"--backend {name}", hint="Give module:function, or FILE.py:function."
        )
    return f"{module}:{function}", folder


def _dtype(name: str) -> str:
    wanted = SPELLED.get(name.strip().lower())
    if wanted not in SHORT:
        raise BadInput(
            f"there is no dtype {name!r} here", about=f"--dtype {name}", hint="Give bf16, fp16, fp32 or fp8."
        )
    return str(wanted)
