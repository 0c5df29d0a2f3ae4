"""Types for arguments of other packages' functions, which are passed on unread."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence

Positional = Sequence[Any]
Keywords = Mapping[str, Any]

Given = Dict[str, Any]
"""All arguments of a call by the names of its parameters, as far as they are known."""

Function = Callable[..., Any]
