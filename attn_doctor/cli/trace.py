"""`attn-doctor trace`: which op, at which line, changed the dtype of q, k or v on its way to the kernel."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from attn_doctor import __version__
from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import FailOn, HowWritten, Json, Only, OutputFile, Recipes, Skip
from attn_doctor.cli.shared import Format, as_if, each, examined, names, progress, write_report
from attn_doctor.cookbook import shelf
from attn_doctor.cookbook.gpus import named_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.traced import met
from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.machine.files import check_output
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.facts import FactSet, Origin
from attn_doctor.model.findings import Severity
from attn_doctor.model.libraries import libraries
from attn_doctor.model.report import Report
from attn_doctor.probe.examine import Wanted, examine
from attn_doctor.probe.trace_facts import facts_of
from attn_doctor.probe.tracing import check_input, run_trace
from attn_doctor.report import exit_status

_HINT = (
    "Name `pkg.module:factory` or `file.py:factory`, a model's config with --hf, or a program after `--`: "
    "attn-doctor trace -- train.py --steps 1"
)
#: Kernels that a config's attention asks for, where they are not installed.
_STAND_INS = {one.attn_implementation: one.key for one in libraries() if one.newest and one.attn_implementation}
_USUAL = next(iter(_STAND_INS.values()))
_FACTORY = (
    "pkg.module:factory, file.py:factory, or a program. A factory is called with the values of --arg and returns a "
    "module with its example inputs, (module, args), (module, kwargs) or (module, args, kwargs), or a callable that "
    "takes nothing; what it returns is run once, and again with what promoted mended."
)
_RULES = {"cpu", "fake", "gpu", "auto"}


@guarded
def trace(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FACTORY | -- SCRIPT ARGS]", help=_FACTORY),
    ] = None,
    hf: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|config.json", help="A Hugging Face model by its config alone: no weights, no download."
        ),
    ] = None,
    argument: Annotated[
        list[str] | None, typer.Option("--arg", metavar="VALUE|NAME=VALUE", help="Handed to the factory. Repeatable.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter or environment folder to run it in.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Cast the model to it: float16, bfloat16, float32.")] = None,
    autocast: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="Run inside torch.autocast of this dtype.")
    ] = None,
    attn: Annotated[
        str | None, typer.Option(metavar="NAME", help="attn_implementation, with --hf: eager, sdpa, flash_attention_2…")
    ] = None,
    backward: Annotated[bool, typer.Option("--backward", help="A backward pass as well.")] = False,
    calls: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after this many attention calls.")] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME|sm_XY", help="Trace as on this GPU, which need not be there.")
    ] = None,
    rules: Annotated[
        str, typer.Option(help="auto, gpu (for real), cpu (CUDA's rules on real tensors), fake (without memory).")
    ] = "auto",
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Compile the Triton kernels it launches, for the GPU.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="With --hf: run the code that lies beside the config.")
    ] = False,
    only: Only = None,
    skip: Skip = None,
    recipes: Recipes = None,
    fail_on: FailOn = Severity.ERROR,
    timeout: Annotated[
        float, typer.Option(min=1.0, max=86400.0, metavar="SECONDS", help="Limit for the whole traced run.")
    ] = 300.0,
    format_: HowWritten = Format.TEXT,
    json_: Json = False,
    output: OutputFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every call and every fact.")] = False,
) -> int:
    """Run a model once and show which op, at which line, changed the dtype of q, k or v.

    On a GPU it runs there for real; without one, or with --gpu, under CUDA's rules. The report says which.
    """
    what, python = _program(what or [], python)
    request = _request(what, hf, argument or [])
    picked = shelf.Selection(only=names(only, "--only"), skip=names(skip, "--skip")).pick(shelf.shelf(each(recipes)))
    named = named_gpu(gpu) if gpu is not None else None
    if rules not in _RULES:
        raise BadInput(f"there are no rules {rules!r}", about=f"--rules {rules}", hint="auto, gpu, cpu or fake.")
    if output is not None:
        check_output(output)
    request |= {
        "dtype": _dtype(dtype, "--dtype"),
        "autocast": _dtype(autocast, "--autocast"),
        "attn": attn,
        "stand_ins": list(dict.fromkeys((_USUAL, _STAND_INS.get(attn or "", _USUAL)))),
        "backward": backward,
        "calls": calls,
        "rules": rules,
        "gpu": None if named is None else {k: v for k, v in asdict(named).items() if v is not None},
        "trust_remote_code": trust_remote_code,
        "compile_kernels": kernels,
        "cwd": str(Path.cwd()),
        "sys_path": [str(Path.cwd())],
    }
    about = f"trace {' '.join(what)}{f' --hf {hf}' if hf else ''}"
    with scratch() as folder, progress() as say:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=60.0)
        facts = examine(target, Wanted(quick=True), folder=folder, say=say)
        request["rules"] = _rules(rules, facts, assumed=named is not None)
        traced = run_trace(target, request, timeout=timeout, folder=folder, say=say)
    check_input(traced.trace, about)
    facts = derive(FactSet([*as_if(facts, named, ()).values(), *facts_of(traced.trace)]))
    # What lies in the environment is check's; here only what the traced run has met is judged.
    diagnosis = met(judge(facts, picked), picked)
    status = exit_status.of(diagnosis, fail_on=fail_on, strict=False, own_faults=bool(faults.met()))
    ended_early = traced.trace.outcome in ("could not run", "raised") or bool(traced.trace.error)
    if (ended_early or not traced.trace.seen) and status == exit_status.Status.HEALTHY:
        status = exit_status.Status.COULD_NOT_EXAMINE
    report = Report(
        command="trace",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=examined(target),
        quick=False,
        assumed=tuple(str(fact.name) for fact in facts.values() if fact.origin is Origin.ASSUMED),
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
        trace=traced.trace,
        trace_answer=traced.answer,
        own_faults=faults.met(),
    )
    write_report(report, Format.JSON if json_ else format_, output=output, verbose=verbose, masked=True)
    return status


#: Programs that start the one that was meant: a trace sees its own process only.
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec", "uv", "poetry", "conda"})


def _rules(asked: str, facts: FactSet, *, assumed: bool) -> str:
    """A GPU that is there is asked itself, unless another one was named."""
    here = facts.value("listed.gpu")
    real = isinstance(here, int) and here > 0 and facts.value("torch.cuda") is not None
    return "gpu" if asked == "auto" and real and not assumed else asked


def _program(what: list[str], python: str | None) -> tuple[list[str], str | None]:
    """A command as it is typed, `python -u train.py ARGS`, as the program and its arguments, and the interpreter."""
    started_by = Path(what[0]).name if len(what) > 1 else ""
    if started_by in _LAUNCHERS:
        raise BadInput(
            "a launcher starts processes of its own, which a trace does not follow",
            about=f"trace -- {' '.join(what)}",
            hint="Name the program itself, without its launcher: attn-doctor trace -- train.py --steps 1",
        )
    if not re.fullmatch(r"python[\d.]*", started_by):
        return what, python
    rest = what[1:]
    while rest and re.fullmatch(r"-[uBOsEIP]+", rest[0]):
        rest = rest[1:]
    if not rest or rest[0].startswith("-"):
        raise BadInput("a trace runs the file of a program", about=f"trace -- {' '.join(what)}", hint=_HINT)
    # A bare `python` is the active environment's, which is examined without being named.
    return rest, python or (what[0] if "/" in what[0] else None)


def _request(what: list[str], hf: Path | None, arguments: list[str]) -> dict[str, Any]:
    if hf is not None:
        if what:
            raise BadInput("a config and something else to run", about=f"--hf {hf} {' '.join(what)}", hint=_HINT)
        if not hf.exists():
            raise BadInput("there is no such config", about=f"--hf {hf}", hint=_HINT)
        return {"kind": "hf", "target": str(hf.resolve()), "args": [], "kwargs": {}}
    if not what:
        raise BadInput("nothing to trace was named", about="attn-doctor trace", hint=_HINT)
    if ":" in what[0]:
        if len(what) > 1:
            raise BadInput("more than one thing to trace", about=" ".join(what), hint="Hand it values with --arg.")
        named = [one.partition("=") for one in arguments if one.partition("=")[0].isidentifier() and "=" in one]
        return {
            "kind": "factory",
            "target": what[0],
            "args": [one for one in arguments if not ("=" in one and one.partition("=")[0].isidentifier())],
            "kwargs": {name: value for name, _, value in named},
        }
    if not Path(what[0]).is_file():
        raise BadInput("there is no such program, and it is no factory", about=f"trace {what[0]}", hint=_HINT)
    return {"kind": "script", "target": str(Path(what[0]).resolve()), "args": what[1:], "kwargs": {}}


def _dtype(text: str | None, flag: str) -> str | None:
    names_ = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32"}
    if text is None:
        return None
    full = names_.get(text.lower(), text.lower())
    if full not in ("float16", "bfloat16", "float32"):
        raise BadInput(f"{text!r} is no dtype for this", about=f"{flag} {text}", hint="float16, bfloat16 or float32.")
    return full
