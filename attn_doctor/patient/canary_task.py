"""Task: the Triton canary. Request: {"gpu": {...}, "timeout": seconds, "scratch": folder}.

Writes canary.json to the answers folder; simulate/triton/canary.py describes its content. Never raises because of the
patient.
"""

from __future__ import annotations

import json
import os

from .simulate.triton import canary


def main(request: canary.Request, answers: str) -> None:
    answer = canary.look(request)
    path = os.path.join(answers, "canary.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(path + ".part", path)  # a reader sees the whole answer or none
