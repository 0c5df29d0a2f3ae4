"""The commands there are, in the order of the help. No command is loaded by being named here."""

from __future__ import annotations

from typing import NamedTuple

ABOUT = "Examines the attention stack of a node: what is wrong, where, why, and how to fix it."
VERSION_HELP = "Print the version and exit."


class Command(NamedTuple):
    """Where a command is, and what the help of all commands says of it."""

    module: str
    function: str | None
    """None for a group of commands, called `app`."""
    summary: str


#: In the order of the help.
COMMANDS: dict[str, Command] = {
    "check": Command("check", "check", "Examine an environment and this node: what is wrong, and the fix."),
    "status": Command("status", "status", "Say what the last report of this node comes to."),
    "compare": Command("compare", "compare", "Say in what two reports differ, critical facts first."),
    "explain": Command("explain", "explain", "Explain the errors in logs: what, why, how sure, and the fix."),
    "trace": Command("trace", "trace", "Run a model once: which op, at which line, changed a dtype."),
    "plan": Command("plan", "plan", "Say which releases go together, before anything is installed."),
    "fix": Command("fix", "fix", "Cure what `check` finds, and prove it; everything can be undone."),
    "undo": Command("undo", "undo", "Put back every byte that a run of `fix` changed."),
    "fleet": Command("fleet", None, "Many nodes, one answer: fit or not, and which nodes differ."),
    "recipes": Command("recipes", None, "What the doctor knows."),
    "help": Command("help_page", "help_page", "Print a page of the documentation."),
    "completion": Command("completion", "completion", "Print a script that completes the command line in your shell."),
    "mcp": Command("mcp", "mcp", "Offer the commands as tools to agents."),
    "schema": Command("schema", "schema", "Print the JSON Schema of what check, fix or undo --json prints."),
}
