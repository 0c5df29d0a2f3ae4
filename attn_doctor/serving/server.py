"""The tools, and the server that offers them over standard input and output.

`fix` changes files: a person says yes to its plan through the client, or said so when the server was started
(`--allow-fix`). A plan is a file that `plan_fix` wrote, and `fix` carries out that plan or none.
"""

# No `from __future__ import annotations`: the SDK reads the types of the tools' parameters.
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ClientCapabilities, ElicitationCapability, ToolAnnotations
from pydantic import BaseModel, Field
from rich.console import Console

from attn_doctor.errors import AttnDoctorError
from attn_doctor.formats import plan_v1
from attn_doctor.machine.own_command import typed
from attn_doctor.model.exit_status import Status
from attn_doctor.model.findings import Safety
from attn_doctor.model.plans import Plan
from attn_doctor.report.terminal import plan as plan_page
from attn_doctor.serving.bounded import bounded
from attn_doctor.serving.commands import answer
from attn_doctor.version import __version__

_ABOUT = (
    "Examines the attention stack of a training node (torch, attention kernels and what uses them). "
    "Start with `explain` for an error text, `check` for an environment, `trace` for a model that can be run, `plan` "
    "for which releases go together. Each answer is the JSON of the command of the same name: `findings` (worst first, "
    "each with `certainty`, `evidence` and `remedies`, whose first is the one to try), `open_questions` (what could "
    "not be decided; absence of findings is not health while some are open) and `exit_status` (0 nothing found, 1 "
    "findings, 3 could not look). `plan_fix` writes a plan and changes nothing; `fix` carries a plan out."
)
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_ASKS_INDEX = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=True)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

#: Bytes of a text that is handed on.
_LONGEST_TEXT = 100_000
#: Characters of a plan that a person is shown.
_LONGEST_QUESTION = 4000

Python = Annotated[str | None, Field(description="Interpreter or environment folder; none: the active one.")]
Gpu = Annotated[str | None, Field(description="Judge for this GPU instead of the node's: h100, a100, t4, sm_90.")]


class Consent(BaseModel):
    """The answer of a person to a plan."""

    yes: bool = Field(description="Carry out this plan? It can be undone.")


async def check(
    python: Python = None,
    gpu: Gpu = None,
    quick: Annotated[bool, Field(description="Read files only; import and run nothing.")] = False,
    configs: Annotated[list[str], Field(description="Training configurations to examine as well.")] = [],  # noqa: B006
) -> dict[str, Any]:
    """Examine an environment and this node: what is wrong, where, why, and the fix."""
    words = [*_given("--python", python), *_given("--gpu", gpu), *_given("--config", *configs)]
    return await _told("check", *words, *(["--quick"] if quick else []), "--json")


async def explain(
    text: Annotated[str | None, Field(description="The words of the error, or the end of the log.")] = None,
    log_file: Annotated[str | None, Field(description="Instead of text: a log file, by its whole path.")] = None,
    python: Python = None,
    gpu: Gpu = None,
) -> dict[str, Any]:
    """Explain the errors in a log: the probable cause, how sure that is, and the fix. Looks at no machine unless
    `python` says that the log is from that environment."""
    if (text is None) == (log_file is None):
        raise ToolError("Give either text or log_file.")
    # One word of a command line holds 128 KiB (execve(2)); an error stands at the end of its log.
    log = log_file if text is None else text.encode()[-_LONGEST_TEXT:].decode(errors="ignore")
    words = [*_given("--python", python), *_given("--gpu", gpu)]
    return await _told("explain", *words, "--json", "--", str(log))


async def trace(
    what: Annotated[str, Field(description="file.py:factory or package.module:factory; see `attn-doctor help trace`.")],
    python: Python = None,
    gpu: Gpu = None,
    autocast: Annotated[str | None, Field(description="Run it inside torch.autocast with bf16 or fp16.")] = None,
    backward: Annotated[bool, Field(description="Run the backward pass as well.")] = False,
) -> dict[str, Any]:
    """Run a model once, on this GPU or by the rules of one that is not there: which op, at which line, changed the
    dtype of q, k, v or mask. Runs the code that it is given."""
    words = [*_given("--python", python), *_given("--gpu", gpu), *_given("--autocast", autocast)]
    return await _told("trace", *words, *(["--backward"] if backward else []), "--json", "--", what)


async def plan(
    wants: Annotated[list[str], Field(description="Packages, as for pip: torch==2.13.*, transformers.", min_length=1)],
    gpu: Gpu = None,
    driver: Annotated[str | None, Field(description="The NVIDIA driver there: 580.95.")] = None,
    python: Annotated[str | None, Field(description="The Python there: 3.12.")] = None,
    offline: Annotated[bool, Field(description="Ask no package index; attn-doctor's tables answer.")] = False,
) -> dict[str, Any]:
    """Say which releases of the wanted packages go together on that GPU, driver and Python. Installs nothing."""
    words = [*_given("--gpu", gpu), *_given("--driver", driver), *_given("--python", python)]
    return await _told("plan", *words, *(["--offline"] if offline else []), "--json", "--", *wants)


async def plan_fix(
    plan_file: Annotated[str, Field(description="Write the plan to this file, by its whole path.")],
    python: Python = None,
    gpu: Gpu = None,
    configs: Annotated[list[str], Field(description="Training configurations to fix as well.")] = [],  # noqa: B006
    only: Annotated[list[str], Field(description="Findings or libraries to fix; none named: all.")] = [],  # noqa: B006
    quick: Annotated[bool, Field(description="Find them by reading files only.")] = False,
    unsafe: Annotated[bool, Field(description="Also what changes results or more than one package.")] = False,
) -> dict[str, Any]:
    """Plan fixes of what `check` finds and write the plan to a file. Changes nothing else."""
    words = [
        *_given("--python", python),
        *_given("--gpu", gpu),
        *_given("--config", *configs),
        *_given("--only", *only),
    ]
    flags = [*(["--quick"] if quick else []), *(["--unsafe-fixes"] if unsafe else [])]
    return await _told("fix", *words, *flags, "--save-plan", plan_file, "--json")


PlanFile = Annotated[str, Field(description="A file that `plan_fix` wrote.")]


def _asked(plan_file: str, ctx: Context) -> Elicit[Consent]:
    """Asks the person, through the client, whether the plan of this file is to be carried out."""
    if not ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())):
        raise ToolError(
            "Not carried out: a person has to agree to this plan, and this client cannot ask one. "
            f"A person can type: {typed('fix', '--plan', plan_file)}"
        )
    page = _page(_held(plan_file))
    rest = "" if len(page) <= _LONGEST_QUESTION else f"\n… the rest stands in {plan_file}"
    return Elicit(f"attn-doctor would do this:\n{page[:_LONGEST_QUESTION]}{rest}", Consent)


def _asked_if_unsafe(plan_file: str, ctx: Context) -> Consent | Elicit[Consent]:
    """As `_asked`, for plans with unsafe steps alone."""
    safe = all(step.safety is Safety.SAFE for step in _held(plan_file).steps)
    return Consent(yes=True) if safe else _asked(plan_file, ctx)


async def fix(plan_file: PlanFile, agreed: Annotated[ElicitationResult[Consent], Resolve(_asked)]) -> dict[str, Any]:
    """Carry out the plan in a file, prove it by examining again, and put everything back if it does not help. A person
    is asked first."""
    if agreed.action != "accept" or not agreed.data.yes:
        return {"outcome": "declined", "exit_status": int(Status.FOUND)}
    return await _told("fix", "--plan", plan_file, "--yes", "--unsafe-fixes", "--json")


async def fix_if_safe(
    plan_file: PlanFile, agreed: Annotated[ElicitationResult[Consent], Resolve(_asked_if_unsafe)]
) -> dict[str, Any]:
    """Carry out the plan in a file, prove it by examining again, and put everything back if it does not help. A person
    is asked first where the plan holds unsafe steps."""
    return await fix(plan_file, agreed)


def make_server(*, allow_fix: bool) -> MCPServer:
    """The server. `allow_fix`: plans of safe steps are carried out without asking a person."""
    server = MCPServer("attn-doctor", version=__version__, instructions=_ABOUT, log_level="ERROR")
    for tool in (check, explain, trace):
        server.add_tool(tool, annotations=_READS)
    server.add_tool(plan, annotations=_ASKS_INDEX)
    server.add_tool(plan_fix, annotations=_ASKS_INDEX)
    server.add_tool(fix_if_safe if allow_fix else fix, name="fix", annotations=_CHANGES)
    return server


async def _told(*words: str) -> dict[str, Any]:
    """The bounded answer of a command. Raises ToolError with what happened, what it was about and what to do."""
    try:
        return bounded(await answer(words), words)
    except AttnDoctorError as error:
        raise _in_three_parts(error) from None


def _given(flag: str, *values: str | None) -> Iterator[str]:
    """The option as often as there are values."""
    for value in values:
        if value is not None:
            yield from (flag, value)


def _held(plan_file: str) -> Plan:
    """The plan in a file. Raises ToolError where it holds none."""
    try:
        return plan_v1.loads(Path(plan_file).read_text(encoding="utf-8"), about=plan_file)
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"The plan cannot be read: {error}") from None
    except AttnDoctorError as error:
        raise _in_three_parts(error) from None


def _page(held: Plan) -> str:
    """The plan as `fix --dry-run` shows it."""
    stream = io.StringIO()
    plan_page.write(held, Console(file=stream, width=100, color_system=None), verbose=False)
    return stream.getvalue()


def _in_three_parts(error: AttnDoctorError) -> ToolError:
    return ToolError("\n".join(filter(None, (error.what, error.about, error.hint))))
