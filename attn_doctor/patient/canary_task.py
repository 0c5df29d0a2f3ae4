"""Task: the Triton canary. Request: {"gpu": {...}, "timeout": seconds, "scratch": folder}.

Leaves canary.json in the answers folder; simulate/triton/canary.py says what is in it. Never raises for what it
examines.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict

from .simulate.triton import canary


def main(request: Dict[str, Any], answers: str) -> None:
    answer = canary.look(request)
    path = os.path.join(answers, "canary.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(path + ".part", path)  # a reader sees a whole answer or none
