"""The tools, called by the client of the SDK: the same answers as the commands', and no change without a yes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, ElicitResult, TextContent

from attn_doctor.serving.bounded import LARGEST
from attn_doctor.serving.server import make_server
from tests.conftest import CHECKOUT, Doctor, Environment

SAID = "RuntimeError: FlashAttention only support fp16 and bf16 data type"
BOTH = b'{"train_batch_size": 8, "zero_optimization": {}, "bf16": {"enabled": true}, "fp16": {"enabled": true}}'


def called(tool: str, arguments: dict[str, Any], *, allow_fix: bool = False, says: str | None = None) -> CallToolResult:
    """One call, in this process. `says`: how a person answers, where the client can ask one."""
    asked: list[str] = []

    async def person(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        assert "bf16" in params.message, "the question shows the plan"
        return ElicitResult(action="accept", content={"yes": True}) if says == "yes" else ElicitResult(action="decline")

    async def talk() -> CallToolResult:
        server = make_server(allow_fix=allow_fix)
        async with Client(server, elicitation_callback=person if says else None) as client:
            return await client.call_tool(tool, arguments)

    ended = anyio.run(talk)
    assert bool(asked) == (says is not None)
    return ended


def words(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(one.text for one in result.content if isinstance(one, TextContent))


def test_over_standard_input_and_output(doctor: Doctor) -> None:
    """As an agent's program starts it: six tools, and `explain` answers as the command does, but for the facts."""

    async def talk() -> tuple[dict[str, bool], CallToolResult]:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "attn_doctor", "mcp"], env={"PYTHONPATH": str(CHECKOUT)}
        )
        async with Client(started) as client:
            tools = {
                one.name: bool(one.annotations and one.annotations.read_only_hint)
                for one in (await client.list_tools()).tools
            }
            return tools, await client.call_tool("explain", {"text": SAID})

    tools, explained = anyio.run(talk)
    assert tools == {"check": True, "explain": True, "trace": True, "plan": True, "plan_fix": True, "fix": False}
    assert not explained.is_error
    told = explained.structured_content
    assert told is not None
    assert len(json.dumps(told, ensure_ascii=False)) <= LARGEST
    typed = doctor("explain", "--json", "--", SAID).report
    for name in ("schema", "findings", "open_questions", "summary"):
        assert told[name] == typed[name]
    assert told["exit_status"] == 1
    assert told["left_out"]["of"][0] == "facts"


def test_mistakes_are_told_as_the_command_tells_them() -> None:
    """What happened, what it was about, what to do; never a traceback."""
    refused = called("check", {"python": "/nowhere/python", "quick": True})

    assert refused.is_error
    assert "/nowhere/python" in words(refused)
    assert "Traceback" not in words(refused)
    assert "either text or log_file" in words(called("explain", {}))


@pytest.fixture
def planned(environment: Callable[..., Environment], tmp_path: Path) -> tuple[Path, Path]:
    """A configuration that asks for both halves, and the plan that the tool made for it."""
    file, plan = tmp_path / "ds.json", tmp_path / "plan.json"
    file.write_bytes(BOTH)
    made = called(
        "plan_fix",
        {
            "plan_file": str(plan), "python": str(environment().python), "gpu": "h100", "configs": [str(file)],
            "only": ["precision-both-halves"], "unsafe": True, "quick": True,
        },
    )  # fmt: skip
    assert made.structured_content is not None
    assert (made.structured_content["outcome"], file.read_bytes()) == ("shown", BOTH)
    return file, plan


def test_a_fix_asks_first(planned: tuple[Path, Path]) -> None:
    """Nobody to ask, or a no: nothing changes. A yes: the plan is carried out, and how to undo it is said."""
    file, plan = planned
    nobody = called("fix", {"plan_file": str(plan)})
    assert (nobody.is_error, file.read_bytes()) == (True, BOTH)
    assert f"fix --plan {plan}" in words(nobody)

    declined = called("fix", {"plan_file": str(plan)}, says="no")
    assert declined.structured_content == {"outcome": "declined", "exit_status": 1}
    assert file.read_bytes() == BOTH

    agreed = called("fix", {"plan_file": str(plan)}, says="yes")
    assert agreed.structured_content is not None
    assert agreed.structured_content["outcome"] == "fixed"
    assert b'"fp16": {"enabled": false}' in file.read_bytes()
    assert "undo" in agreed.structured_content["run"]["undo"]


def test_unsafe_steps_are_asked_about_all_the_same(planned: tuple[Path, Path]) -> None:
    """--allow-fix speaks for safe steps alone."""
    file, plan = planned
    refused = called("fix", {"plan_file": str(plan)}, allow_fix=True)
    assert (refused.is_error, file.read_bytes()) == (True, BOTH)

    plan.write_text(plan.read_text().replace('"safety": "unsafe"', '"safety": "safe"'))
    assert called("fix", {"plan_file": str(plan)}, allow_fix=True).structured_content["outcome"] == "fixed"  # type: ignore[index]
    assert b'"fp16": {"enabled": false}' in file.read_bytes()
