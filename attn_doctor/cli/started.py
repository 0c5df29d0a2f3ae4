"""How this process was started: `python -m attn_doctor` always examines that Python."""

from __future__ import annotations

as_module = False
#: True after parsing: an exit from here on comes from a command.
in_command = False
#: Parameters that a person gave on the command line, each with its flag.
given: dict[str, str] = {}
