"""Task `semantics_run`: what one model's attention computes (semantics/__init__.py has request and answer)."""

from __future__ import annotations

from typing import Any, Dict

from . import model_run


def main(request: Dict[str, Any], answers: str) -> None:
    model_run.run(request, answers, "semantics")
