"""Why SDPA picks the backend that it picks, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rich.text import Text

from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole

_TITLES = {"flash": "flash", "efficient": "memory-efficient", "cudnn": "cuDNN", "math": "math"}


def write(call: str, answer: Mapping[str, Any], stream: IO[str]) -> None:
    """Writes the explanation."""
    console = ReportConsole(stream)

    def line(text: str, indent: int = 0, style: str = "") -> None:
        for number, part in enumerate(Text(text).wrap(console, max(console.width - indent - 2, 40))):
            console.print(Text(" " * (indent if number == 0 else indent + 2)) + Text(part.plain, style=style))

    how = say("asked of torch on") if answer["how"] == "asked" else say("predicted for")
    line(f"scaled_dot_product_attention {call}", style="bold")
    capability = say("compute capability {answer}", answer=answer["compute_capability"])
    gpu = capability if answer["gpu"] == answer["compute_capability"] else f"{answer['gpu']} ({capability})"
    line(say("{how} {gpu}, torch {answer}", how=how, gpu=gpu, answer=answer["torch"]))
    if answer.get("could_not_ask"):
        line(say("torch could not be asked here: {answer}", answer=answer["could_not_ask"]))
    if answer["raises"]:
        line(say("raises before any backend is asked: {answer}", answer=answer["raises"]), 2, "bold red")
    else:
        chosen = answer["chosen"]
        line(say("picks {backend}", backend=_TITLES.get(chosen, say("none"))), 2, "bold green")
    for warning in answer["warnings"]:
        line(f"! {warning}", 2, "bold yellow")
    for name, title in _TITLES.items():
        if name in answer["refused"]:
            reasons = answer["refused"][name] or [say("torch refuses it without a word")]
            line(say("not {title}: {reasons}", title=title, reasons="; ".join(reasons)), 2)
        elif name != answer["chosen"] and not answer["raises"]:
            line(say("{title} could take it as well, and comes after", title=title), 2)
    for number, way in enumerate(answer["changes"][:3]):
        line((say("to get flash: ") if number == 0 else say("or: ")) + say("; and ").join(way["changes"]), 2)
    if answer["chosen"] != "flash" and not answer["changes"] and not answer["raises"]:
        line(say("nothing that is known here makes flash take such a call"), 2)
    if not answer["certain"]:
        line(say("not certain: {answer}", answer="; ".join(answer["doubts"])), 2, "dim")
    said = answer.get("predicted")
    if said and said["chosen"] != answer["chosen"]:
        line(say("the prediction without a GPU would have said {said}", said=said["chosen"]), 2, "dim")
