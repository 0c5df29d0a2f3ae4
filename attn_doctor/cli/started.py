"""How this process was started: `python -m attn_doctor` always means that Python."""

from __future__ import annotations

as_module = False
#: The parser is through: what ends the process from here on is a command.
in_command = False
#: Parameters that a person gave on the command line, each with its flag.
given: dict[str, str] = {}
