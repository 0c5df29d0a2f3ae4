"""Why SDPA picks the backend that it picks, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rich.text import Text

from attn_doctor.report.terminal.console import ReportConsole

_TITLES = {"flash": "flash", "efficient": "memory-efficient", "cudnn": "cuDNN", "math": "math"}


def write(call: str, answer: Mapping[str, Any], stream: IO[str]) -> None:
    """Writes the explanation."""
    console = ReportConsole(stream)

    def line(text: str, indent: int = 0, style: str = "") -> None:
        for number, part in enumerate(Text(text).wrap(console, max(console.width - indent - 2, 40))):
            console.print(Text(" " * (indent if number == 0 else indent + 2)) + Text(part.plain, style=style))

    how = "asked of torch on" if answer["how"] == "asked" else "predicted for"
    line(f"scaled_dot_product_attention {call}", style="bold")
    capability = f"compute capability {answer['compute_capability']}"
    gpu = capability if answer["gpu"] == answer["compute_capability"] else f"{answer['gpu']} ({capability})"
    line(f"{how} {gpu}, torch {answer['torch']}")
    if answer.get("could_not_ask"):
        line(f"torch could not be asked here: {answer['could_not_ask']}")
    if answer["raises"]:
        line(f"raises before any backend is asked: {answer['raises']}", 2, "bold red")
    else:
        chosen = answer["chosen"]
        line(f"picks {_TITLES.get(chosen, 'none')}", 2, "bold green")
    for warning in answer["warnings"]:
        line(f"! {warning}", 2, "bold yellow")
    for name, title in _TITLES.items():
        if name in answer["refused"]:
            reasons = answer["refused"][name] or ["torch refuses it without a word"]
            line(f"not {title}: {'; '.join(reasons)}", 2)
        elif name != answer["chosen"] and not answer["raises"]:
            line(f"{title} could take it as well, and comes after", 2)
    for number, way in enumerate(answer["changes"][:3]):
        line(("to get flash: " if number == 0 else "or: ") + "; and ".join(way["changes"]), 2)
    if answer["chosen"] != "flash" and not answer["changes"] and not answer["raises"]:
        line("nothing that is known here makes flash take such a call", 2)
    if not answer["certain"]:
        line(f"not certain: {'; '.join(answer['doubts'])}", 2, "dim")
    said = answer.get("predicted")
    if said and said["chosen"] != answer["chosen"]:
        line(f"the prediction without a GPU would have said {said['chosen']}", 2, "dim")
