"""How this process was started: `python -m attn_doctor` always means that Python."""

from __future__ import annotations

as_module = False
