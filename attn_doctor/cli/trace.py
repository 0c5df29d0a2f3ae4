"""`attn-doctor trace`: which op, at which line, changed the dtype of q, k or v on its way to the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import FailOn, Json, Lang, Only, OutputFile, Recipes, Skip, written_as
from attn_doctor.cli.shared import each, names, progress, put
from attn_doctor.machine.files import check_output
from attn_doctor.model.findings import Severity
from attn_doctor.report import picker
from attn_doctor.report.renderer import TRACE, Manner
from attn_doctor.workflows.trace import trace as run_trace
from attn_doctor.workflows.traced_program import TraceRequest

_FACTORY = (
    "pkg.module:factory, file.py:factory, or a program. A factory is called with the values of --arg and returns a "
    "module with its example inputs, (module, args), (module, kwargs) or (module, args, kwargs), or a callable that "
    "takes nothing; what it returns is run once, and again with each promotion cast back."
)


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
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the form of each attention call there (shapes, strides, dtypes, flags; no values), for check "
            "--replay.",
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME|sm_XY", help="Trace as on this GPU, which need not be there.")
    ] = None,
    rules: Annotated[
        str, typer.Option(help="auto, gpu (for real), cpu (CUDA's rules on real tensors), fake (without memory).")
    ] = "auto",
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Compile the Triton kernels it launches, for the GPU.")
    ] = False,
    semantics: Annotated[
        bool,
        typer.Option(
            "--semantics",
            help="Instead of dtypes: which token reaches which (causality, packing, padding, window, cache) in a "
            "small copy with random weights.",
        ),
    ] = False,
    compile_: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Instead of dtypes: each attention region of a small copy, eager against torch.compile, forward and "
            "backward, in several layouts.",
        ),
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
    format_: Annotated[str | None, written_as(TRACE)] = None,
    json_: Json = False,
    output: OutputFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every call and every fact.")] = False,
    lang: Lang = None,
) -> int:
    """Run a model once and show which op, at which line, changed the dtype of q, k or v.

    On a GPU it runs there for real; without one, or with --gpu, under CUDA's rules. The report says which.
    """
    picked = picker.pick(TRACE, format_, as_json=json_, output=output)
    if output is not None:
        check_output(output)
    if record is not None:
        check_output(record)
    request = TraceRequest(
        what=each(what),
        hf=hf,
        arguments=each(argument),
        python=python,
        as_module=started.as_module,
        dtype=dtype,
        autocast=autocast,
        attn=attn,
        backward=backward,
        calls=calls,
        record=record,
        gpu=gpu,
        rules=rules,
        kernels=kernels,
        trust_remote_code=trust_remote_code,
        only=names(only, "--only"),
        skip=names(skip, "--skip"),
        recipes=each(recipes),
        fail_on=fail_on,
        timeout=timeout,
        semantics=semantics,
        compile=compile_,
    )
    with progress() as say:
        report = run_trace(request, say=say)
    put(report, picked, output=output, manner=Manner(verbose=verbose, fail_on=fail_on))
    return report.exit_status
