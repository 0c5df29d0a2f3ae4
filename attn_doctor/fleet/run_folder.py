"""The folder of a run: reports of its nodes, and under `run/` what was asked, the jobs submitted and what they said.

The folder is shared by all nodes. It outlives the command: a run is continued, followed or cancelled from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.fleet.nodeset import NAME
from attn_doctor.machine.files import read_input, replace_file
from attn_doctor.quick_dataclasses import dataclass, field

SCHEMA = "attn-doctor/fleet-run/v1"
_MOST_BYTES = 256 << 20
_TAIL, _WORDS = 1024, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run asks."""

    name: str
    """The name of all its jobs."""
    begun: str
    nodes: tuple[str, ...]
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The options of the command: a run is continued only with the same."""
    ended: bool = False
    """Its command came to its end: the next one begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal: a job that was submitted, or why none is."""

    node: str
    deep: bool
    job: str = ""
    words: str = ""


class RunFolder:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / "run"
        self._plan = self.own / "plan.json"
        self._journal = self.own / "jobs.ndjson"

    def prepare(self) -> None:
        """Makes the folder.

        Raises BadInput.
        """
        try:
            self.own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"the folder cannot be made: {error.strerror}", about=f"--reports {self.folder}") from None

    def plan(self) -> Plan | None:
        """What the last run here asked; None when there was none.

        Raises BadInput when it is damaged.
        """
        if not self._plan.exists():
            return None
        try:
            written = json.loads(read_input(self._plan, most=_MOST_BYTES))
            if written["schema"] != SCHEMA or not str(written["name"]).startswith("attn-doctor-"):
                raise ValueError(written["schema"])
            return Plan(
                name=str(written["name"]),
                begun=str(written["begun"]),
                nodes=tuple(node for node in written["nodes"] if NAME.match(node)),
                asked=dict(written["asked"]),
                ended=written["ended"] is True,
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadInput(
                f"its plan cannot be read: {str(error)[:100]}",
                about=str(self._plan),
                hint="It was written by another version, or is damaged: name another folder.",
            ) from None

    def begin(self, nodes: tuple[str, ...], asked: Mapping[str, Any]) -> tuple[Plan, bool]:
        """Begins a run, or continues the one that has not ended: (plan, whether it is continued).

        Raises BadInput when that one asked something else.
        """
        before = self.plan()
        if before is not None and not before.ended:
            if before.nodes == nodes and before.asked == asked:
                return before, True
            other = next((key for key in asked if asked[key] != before.asked.get(key)), "the nodes")
            raise BadInput(
                f"a run of other options has not ended there: {other} differs",
                about=f"--reports {self.folder}",
                hint="Continue it with its own options, end it with `fleet cancel DIR`, or name another folder.",
            )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        plan = Plan(name=f"attn-doctor-{secrets.token_hex(4)}", begun=now, nodes=nodes, asked=asked)
        self._write(plan)
        with contextlib.suppress(FileNotFoundError):
            self._journal.unlink()
        return plan, False

    def end(self, plan: Plan) -> None:
        """The run is over: the next one in this folder begins anew."""
        self._write(Plan(name=plan.name, begun=plan.begun, nodes=plan.nodes, asked=plan.asked, ended=True))

    def _write(self, plan: Plan) -> None:
        written = {
            "schema": SCHEMA, "name": plan.name, "begun": plan.begun, "nodes": list(plan.nodes),
            "asked": dict(plan.asked), "ended": plan.ended,
        }  # fmt: skip
        replace_file(self._plan, json.dumps(written) + "\n", chosen=True)

    def note(self, entry: Entry) -> None:
        """Writes one line of the journal."""
        text = json.dumps({"node": entry.node, "deep": entry.deep, "job": entry.job, "words": entry.words})
        handle = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w") as file:
            file.write(f"{text}\n")

    def entries(self) -> list[Entry]:
        """The journal; a line that is cut off is left out."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in self._journal.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    one = json.loads(line)
                    job = str(one["job"])
                    if job and not job.isdigit():
                        continue
                    found.append(
                        Entry(node=str(one["node"]), deep=one["deep"] is True, job=job, words=str(one["words"]))
                    )
        return found

    @property
    def log_pattern(self) -> str:
        """The file for what a job prints, as sbatch takes it."""
        return str(self.own / "%j.out")

    def log(self, job: str) -> str | None:
        """The last words that a job printed; None when there is no file of it."""
        try:
            with (self.own / f"{job}.out").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return None
        return " / ".join(line.strip() for line in lines if line.strip())[-_WORDS:]
