"""Folders, files and pipes of every kind become the same reports; what is damaged is named and nothing crashes."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fleet.extract import LARGEST, report_of
from attn_doctor.fleet.reading import Messages, check_sources, read, stream
from attn_doctor.formats import chunks
from attn_doctor.model.fleet import NodeReport, Unreadable
from tests.fleet.reports import MANY, line, report

NODES = [f"n{number}" for number in range(1, 6)]


def labelled(reports: list[dict[str, Any]], *, indent: int | None = None) -> bytes:
    """As `srun --label` passes it on: pieces of 1 KB with the task's number, those of all tasks mixed."""
    pieces = []
    for task, one in enumerate(reports):
        text = json.dumps(one, indent=indent).encode() + b"\n"
        of_task = [
            b"%d: %s\n" % (task, part[at : at + 1021]) for part in text.splitlines() for at in range(0, len(part), 1021)
        ]
        pieces.append(of_task)
    chance = random.Random(7)
    mixed = []
    while any(pieces):
        mixed.append(chance.choice([one for one in pieces if one]).pop(0))
    return b"".join(mixed)


def clush(reports: list[dict[str, Any]]) -> bytes:
    """`node: line`."""
    return b"".join(b"%s: %s" % (one["node"]["name"].encode(), line(one)) for one in reports)


def framed(reports: list[dict[str, Any]], *, prefix: str = "") -> bytes:
    """`check --format chunks`, frames of all nodes mixed."""
    every = [
        f"{prefix.format(number)}{frame}"
        for number, one in enumerate(reports)
        for frame in chunks.frames(one["node"]["name"], json.dumps(one))
    ]
    random.Random(5).shuffle(every)
    return "\n".join(every).encode()


FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "one a line": lambda reports: b"".join(line(one) for one in reports),
    "indented": lambda reports: b"".join(json.dumps(one, indent=2).encode() + b"\n" for one in reports),
    "srun --label": labelled,
    "srun --label, indented": lambda reports: labelled(reports, indent=2),
    "clush": clush,
    "frames": framed,
    "frames and labels": lambda reports: framed(reports, prefix="{}: "),
}


def nodes_in(text: bytes) -> tuple[list[str], list[Unreadable]]:
    """(nodes of whole reports, the rest)"""
    arrivals = list(stream(text.splitlines(keepends=True), "a pipe", Messages()))
    return (
        sorted(one.node for one in arrivals if isinstance(one, NodeReport)),
        [one for one in arrivals if isinstance(one, Unreadable)],
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_known_by_itself(form: str) -> None:
    """The same reports come out of each, to the last character."""
    reports = [report(node, **MANY) for node in NODES]
    arrivals = list(stream(FORMS[form](reports).splitlines(keepends=True), "a pipe", Messages()))
    whole = sorted((one for one in arrivals if isinstance(one, NodeReport)), key=lambda one: one.node)

    assert len(arrivals) == len(NODES)
    assert [replace(one, task=None) for one in whole] == [report_of(line(one), source="") for one in reports]


@pytest.mark.parametrize("form", FORMS)
def test_noise_around_reports_is_passed_over(form: str) -> None:
    """Banners, warnings and empty lines are no reports and break none."""
    noise = b"Welcome to the cluster!\n\nWARNING: something {curly}\nsrun: job 7 queued\n"

    assert nodes_in(noise + FORMS[form]([report(node) for node in NODES]) + b"\n" + noise) == (NODES, [])


@pytest.mark.parametrize("form", FORMS)
def test_a_pipe_that_breaks_off(form: str) -> None:
    """What came whole counts; the rest is named, not lost."""
    whole = FORMS[form]([report(node) for node in NODES])
    for cut in (0.35, 0.75, 0.97):
        fit, damaged = nodes_in(whole[: int(len(whole) * cut)])
        assert set(fit) < set(NODES)
        assert damaged, cut


def test_torn_lines_are_never_a_report() -> None:
    """srun without --label mixes pieces of several tasks in one line."""
    pieces = [[line(report(node), 20_000)[at : at + 1024] for at in range(0, 20_000, 1024)] for node in NODES]
    chance = random.Random(3)
    mixed = b""
    while any(pieces):
        mixed += chance.choice([one for one in pieces if one]).pop(0)
    fit, damaged = nodes_in(mixed)

    assert fit == []
    assert damaged
    assert all(one.unlabelled for one in damaged)


def test_a_task_that_only_complains() -> None:
    """Its words are kept, with its number."""
    text = line(report("n1")).replace(b"{", b"0: {", 1) + b"1: Traceback (most recent call last):\n1: boom\n"
    _, damaged = nodes_in(text)

    assert [(one.task, "boom" in one.reason) for one in damaged] == [(1, True)]


def deep(levels: int) -> bytes:
    return b'{"schema": "attn-doctor/report/v1", "x": ' + b"[" * levels + b"]" * levels + b"}"


def changed(**changes: Any) -> bytes:
    return json.dumps({**report("n1"), **changes}).encode()


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "cut off": line(report("n1"))[:1500],
    "not JSON": b"{'schema': 1}",
    "nested without end": deep(100_000),
    "a number of ten thousand digits": b'{"schema": "attn-doctor/report/v1", "x": ' + b"9" * 10_000 + b"}",
    "NaN": line(report("n1")).replace(b'"gpu_count": 8', b'"gpu_count": NaN'),
    "not UTF-8": b'{"schema": "\xff\xfe"}',
    "a list": b"[1, 2]",
    "no schema": b"{}",
    "another version": changed(schema="attn-doctor/report/v2"),
    "findings of a wrong type": changed(findings={"a": 1}),
    "a finding of a wrong type": changed(findings=["x"]),
    "no summary": changed(summary=None),
    "facts of a wrong type": changed(fingerprint={"facts": [1]}),
    "a fact of a wrong type": changed(fingerprint={"facts": {"gpu": {"a": {"b": 1}}}}),
    "a name of a wrong type": changed(node={"name": ["n1"], "hostname": "n1"}),
    "a name with a bracket": changed(node={"name": "n[1-9]", "hostname": "n"}),
    "an exit status that is no number": changed(summary={"exit_status": True}),
    "too large": b'{"schema": "' + b"x" * LARGEST,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_report_is_named(name: str) -> None:
    """With a reason, as one file and within a pipe; what comes after it is read."""
    found = report_of(HOSTILE[name], source="here")

    assert isinstance(found, Unreadable)
    assert found.reason
    if HOSTILE[name] and name != "too large":
        fit, damaged = nodes_in(HOSTILE[name] + b"\n" + line(report("n2")))
        assert fit == ["n2"]
        # Within a pipe what does not begin as a report does is somebody's noise.
        assert damaged or not HOSTILE[name].startswith(b"{")


@pytest.mark.parametrize("cut", range(5))
def test_two_torn_reports_that_make_a_whole_one(cut: int) -> None:
    """The head of one and the tail of another, parted where a fact ends, are JSON, and nobody's report."""
    ours, theirs = (line(report(node, driver=driver)) for node, driver in (("n1", "580.1"), ("n2", "580.22")))
    ends = ['"packages.torch"', '"packages.triton"', '"driver"', '"kernel"', '"libraries.']
    head, tail = ours.partition(ends[cut].encode())[0], theirs.partition(b'"env.NCCL_NVLS_ENABLE"')[2]
    torn = head + b'"env.NCCL_NVLS_ENABLE"' + tail
    assert json.loads(torn)["node"]["name"] == "n1"

    assert report_of(torn, source="x") == Unreadable(
        source="x",
        reason="damaged: its fingerprint is not that of its facts; pieces of several reports may be mixed",
        node="n1",
    )


def test_the_node_of_a_damaged_report() -> None:
    """It is named where its name can still be read, by the file's name otherwise."""
    known = [name for name in ("NaN", "another version", "findings of a wrong type", "no summary")
             if getattr(report_of(HOSTILE[name], source="x"), "node", None) != "n1"]  # fmt: skip

    assert known == []
    assert report_of(b"{", source="x", node="n7") == Unreadable(source="x", reason="cut off after 1 bytes", node="n7")


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    """The rest of it is left out; the next report is read."""
    file = tmp_path / "reports.ndjson"
    with file.open("wb") as out:
        out.write(b'{"schema": "')
        out.truncate(LARGEST * 4)
        out.seek(LARGEST * 4)
        out.write(b"\n" + line(report("n2")))
    arrivals = list(read([str(file)], Messages()))

    assert [type(one).__name__ for one in arrivals] == ["Unreadable", "NodeReport"]


def test_a_folder(tmp_path: Path) -> None:
    """One file a node; what is being written or is no report's name is left alone, what cannot be read is named."""
    for node in NODES[:3]:
        (tmp_path / f"{node}.9f2c.json").write_bytes(line(report(node)))
    (tmp_path / ".n9.json.part").write_text("{")
    (tmp_path / "README").write_text("no report")
    (tmp_path / "n4.9f2c.json").write_bytes(line(report("n4"))[:300])
    (tmp_path / "n5.json").mkdir()
    os.mkfifo(tmp_path / "n6.json")
    arrivals = list(read([str(tmp_path)], Messages()))

    assert sorted(one.node for one in arrivals if isinstance(one, NodeReport)) == NODES[:3]
    assert len([one for one in arrivals if isinstance(one, Unreadable)]) == 3


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    """That is wrong usage, and no fleet without nodes."""
    with pytest.raises(BadInput, match="no such file"):
        check_sources([str(tmp_path / "nothing")])
