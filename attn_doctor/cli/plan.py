"""`attn-doctor plan`: which releases go together, before anything is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from attn_doctor.cli.declare import Argument, Option
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Json, Lang, OutputFile, written_as
from attn_doctor.cli.shared import each, progress, put, tell_aside
from attn_doctor.machine import files
from attn_doctor.report import picker
from attn_doctor.report.renderer import PLAN, Manner
from attn_doctor.report.words import verdict
from attn_doctor.workflows.plan import PlanRequest
from attn_doctor.workflows.plan import plan as make_plan
from attn_doctor.workflows.plan_apply import apply, refuse_present


@guarded
def plan(
    wants: Annotated[
        list[str] | None, Argument(metavar="[WANT...]", help="Packages, as for pip: torch==2.13.* vllm transformers.")
    ] = None,
    like: Annotated[
        list[Path] | None, Option(metavar="FILE", help="What this configuration needs is wanted as well. Repeatable.")
    ] = None,
    from_: Annotated[
        Path | None, Option("--from", metavar="FILE", help="For the node of this report of `check --json`.")
    ] = None,
    fleet: Annotated[
        Path | None,
        Option(metavar="FILE", help="For all nodes of this verdict of `fleet merge --json`, else for each cohort."),
    ] = None,
    gpu: Annotated[
        str | None, Option(metavar="NAME|sm_XY", help="The GPU that it is for: h100, a100, rtx4090, sm_90…")
    ] = None,
    driver: Annotated[str | None, Option(metavar="VERSION", help="The NVIDIA driver there: 580.95.")] = None,
    python_version: Annotated[
        str | None, Option("--python", metavar="VERSION", help="The Python there: 3.12; else this one's.")
    ] = None,
    glibc: Annotated[
        str | None, Option(metavar="VERSION", help="The C library there: 2.35. Default: this one's.")
    ] = None,
    machine: Annotated[str | None, Option(metavar="NAME", help="x86_64 or aarch64. Default: this one's.")] = None,
    cuda: Annotated[
        str | None, Option(metavar="VERSION", help="Only builds of torch for this CUDA: 12, 12.8, 13.0.")
    ] = None,
    torch_backend: Annotated[
        str | None, Option(metavar="NAME", help="Only this build of torch: cu126, cu130, cpu.")
    ] = None,
    index: Annotated[
        list[str] | None, Option(metavar="URL", help="Another package index to ask as well. Repeatable.")
    ] = None,
    find_links: Annotated[
        list[str] | None, Option(metavar="DIR|URL", help="A folder or page of wheels to ask as well. Repeatable.")
    ] = None,
    prove: Annotated[
        bool, Option("--prove", help="Open wheels that nobody opened before; without it their sizes are shown.")
    ] = False,
    offline: Annotated[bool, Option("--offline", help="Ask nobody: the shelf's tables answer.")] = False,
    apply_to: Annotated[
        Path | None,
        Option("--apply", metavar="DIR", help="Install the first plan into a new environment there, and check it."),
    ] = None,
    format_: Annotated[str | None, written_as(PLAN)] = None,
    json_: Json = False,
    output: OutputFile = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show every package and all sources.")] = False,
    lang: Lang = None,
) -> int:
    """Say which releases of the wanted packages go together on that GPU, driver and Python. Installs nothing.

    uv, or else pip, asks the package index that it is configured with: the names of the packages go there. Addresses of
    wheels elsewhere are asked whether they are there.

    Exit status: 0 a plan, 1 none, with the conflict and what comes nearest, 2 wrong usage, 3 the index was not reached;
    with --apply that of the check.
    """
    picked = picker.pick(PLAN, picker.JSON if json_ else format_, output=output)
    if output is not None:
        files.check_output(Path(output))
    request = PlanRequest(
        wants=each(wants),
        gpu=gpu,
        driver=driver,
        python=python_version,
        glibc=glibc,
        machine=machine,
        like=each(like),
        from_report=from_,
        fleet=fleet,
        cuda=cuda,
        torch_backend=torch_backend,
        indexes=each(index),
        find_links=each(find_links),
        prove=prove,
        offline=offline,
    )
    if apply_to is not None:
        refuse_present(apply_to)
    with progress() as say:
        answer = make_plan(request, say=say)
    put(answer, picked, output=output, manner=Manner(verbose=verbose))
    if apply_to is None or not answer.plans:
        return answer.exit_status
    with progress() as say:
        report = apply(answer.plans[0], answer.node, apply_to, say=say)
    tell_aside(f"{apply_to}: {verdict.counted(report)}")
    return report.exit_status
