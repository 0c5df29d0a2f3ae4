"""Commands as typer runs them: help texts with their options in groups, by what a person wants to decide, and options
whose value may be left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand

from attn_doctor.cli.declare import with_values

#: Parameters by heading, the same in each command. What stands nowhere here is under "Options".
GROUPS: dict[str, tuple[str, ...]] = {
    "What to examine": (
        "python", "config", "here", "facts_file", "hf", "argument", "backend", "backward", "calls", "trace",
        "trust_remote_code", "attn", "autocast", "dtype", "as_python", "model", "plan_file", "lock", "from_", "like",
    ),
    "Judge as": (
        "gpu", "driver", "python_version", "glibc", "machine", "cuda", "torch_backend", "assumption", "rules", "only",
        "skip", "recipes", "accept_file", "fail_on", "strict",
    ),
    "How deep": (
        "quick", "samples", "kernels", "kernels_budget", "seed", "explain_sdpa", "timeout", "semantics",
        "prove", "offline",
    ),
    "Output": (
        "format_", "json_", "output", "lang", "expect", "wait", "prometheus", "exit_zero", "exit_style", "show_names",
        "verbose",
    ),
}  # fmt: skip
#: Fewer options than this need no headings.
_LEAST = 8
_TYPE = re.compile(r" <list\[\w+\]>$")


class GroupedCommand(TyperCommand):
    """A command whose help text has its options under headings."""

    bare: ClassVar[Mapping[str, str]] = {}
    """Flags whose value may be left out, and that value: typer itself knows no such options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the words with the values that were left out."""
        return super().parse_args(ctx, with_values(args, self.bare))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then each group of options, then the others."""
        records = [(one, one.get_help_record(ctx)) for one in self.get_params(ctx)]
        written = [(one, (_TYPE.sub("", record[0]), record[1])) for one, record in records if record is not None]
        arguments = [record for one, record in written if one.param_type_name == "argument"]
        options = [(str(one.name), record) for one, record in written if one.param_type_name == "option"]
        sections = {"Arguments": arguments, **{heading: [] for heading in (*GROUPS, "Options")}}
        for name, record in options:
            sections[_heading(name) if len(options) >= _LEAST else "Options"].append(record)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _heading(name: str) -> str:
    return next((heading for heading, names in GROUPS.items() if name in names), "Options")
