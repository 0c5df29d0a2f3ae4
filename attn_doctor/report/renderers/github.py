"""`github`: the text report, and an annotation for each finding at its file and line, for a log of GitHub Actions.

Commands and their escapes: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
The report quotes logs and messages of others, which must not become commands: it is printed while commands are stopped.
"""

from __future__ import annotations

import os
import re
from typing import IO

from attn_doctor.machine.printable import harmless, one_line
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.report import Report
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer, Write
from attn_doctor.report.renderers import text
from attn_doctor.report.words import advice, places

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
#: GitHub keeps 64 KiB of a step's annotations; a longer message is cut there without a sign.
_LONGEST = 4000
_INSTALLED = re.compile("/(?:site|dist)-packages(?:/|$)")


def annotation(finding: Finding) -> str:
    """One workflow command. The file is named only if it is in the checkout, where GitHub can show the line."""
    level = "notice" if finding.accepted else _LEVELS[finding.severity]
    place = places.place_of(finding)
    file = places.below(place.file, os.environ.get("GITHUB_WORKSPACE")) if place else None
    if file is not None and _INSTALLED.search(f"/{file}"):
        file = None  # an environment within the checkout, and no part of it
    title = f"{finding.id}{' (accepted)' if finding.accepted else ''}"
    properties = {"title": title}
    lines = [one_line(finding.title)]
    if place and file is not None:
        properties = {"file": file, **({"line": str(place.line)} if place.line else {}), **properties}
    elif place:
        lines.append(f"at {places.shown(place.file, place.line)}")
    lines += advice.plain(finding)
    message = "\n".join(lines)
    message = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {named}::{_data(message)}"


def _data(words: str) -> str:
    return harmless(words).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")


def _page(write: Write[Report]) -> Write[Report]:
    def whole(report: Report, stream: IO[str], manner: Manner) -> None:
        import secrets  # as slow to import as the rest of this file

        token = f"attn-doctor-{secrets.token_hex(8)}"
        stream.write(f"::stop-commands::{token}\n")
        try:
            write(report, stream, manner)
        finally:
            stream.write(f"::{token}::\n")
        stream.writelines(annotation(finding) + "\n" for finding in report.diagnosis.findings)

    return whole


RENDERER = Renderer(
    "github",
    media=Media.PERSON,
    in_english=True,
    pages=(
        Page(CHECK, _page(text.write_report)),
        Page(TRACE, _page(text.write_report)),
        Page(EXPLAIN, _page(text.write_explanation)),
    ),
)
