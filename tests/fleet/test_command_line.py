"""`fleet merge`, `golden` and `run` as a person uses them: answers, files, exit statuses, bad input."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor, run_here
from tests.fleet.reports import found, line, report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four nodes: n2 is ill, n3 has another torch, n4's report is cut off."""
    made = tmp_path / "reports"
    made.mkdir()
    for one in (report("n1"), found(report("n2")), report("n3", **{"packages.torch": "2.12.1"}), report("n5")):
        (made / f"{one['node']['name']}.9f2c.json").write_bytes(line(one))
    (made / "n4.9f2c.json").write_bytes(line(report("n4"))[:700])
    return made


@pytest.mark.parametrize("bad", [("--bogus",), ("--timeout", "soon"), ("--help",), ("echo",)], ids=" ".join)
def test_options_for_the_nodes_are_read_first(doctor: Doctor, bad: tuple[str, ...]) -> None:
    """What `check` would refuse on every node is refused here, in one message, before anything starts."""
    run = doctor("fleet", "run", "--engine", "clush", "-w", "n[1-3]", "--", "--quick", *bad)

    assert (run.status, run.stdout) == (2, "")
    assert bad[0] in run.stderr
    assert "+ clush" not in run.stderr


def test_a_folder(doctor: Doctor, folder: Path) -> None:
    """Missing and unreadable first, then findings, then odd ones; 1 comes before 3."""
    run = doctor("fleet", "merge", folder, "--expect", "n[1-6]")

    assert (run.status, run.stderr) == (1, "")
    places = [
        run.stdout.index(word)
        for word in ("\nmissing\n  n6", "\nunreadable\n  n4", "\nfails\n  n2", "n3  packages.torch")
    ]
    assert places == sorted(places)
    assert "2.12.1; the others have 2.13.0+cu130" in run.stdout


def test_formats(doctor: Doctor, folder: Path, tmp_path: Path) -> None:
    """JSON, HTML and Prometheus say the same; --output writes it there."""
    answer: dict[str, Any] = json.loads(doctor("fleet", "merge", folder, "--json").stdout)
    assert (answer["schema"], answer["nodes"]["fails"]) == ("attn-doctor/fleet/v1", ["n2"])
    page = doctor("fleet", "merge", folder, "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert "packages.torch" in page
    metrics = doctor("fleet", "merge", folder, "--format", "prometheus", "--output", tmp_path / "fleet.prom")
    assert (metrics.status, metrics.stdout) == (1, "")
    assert 'attn_doctor_fleet_nodes{state="fails"} 1' in (tmp_path / "fleet.prom").read_text()


@pytest.mark.parametrize("junk", [b"{}", b"\x00\xff{ garbage", b"<html>{</html>", b"not {\n even { close\n", b"{" * 9])
@pytest.mark.parametrize("name", ["n2.9f2c4411aa.json", "n2.json", "n2.failed-0a1b2c3d.json"])
def test_junk_is_unreadable(doctor: Doctor, tmp_path: Path, junk: bytes, name: str) -> None:
    """Whatever lies in a file with a report's name: its node sent something, and is not missing."""
    (tmp_path / name).write_bytes(junk)
    (tmp_path / "n1.9f2c.json").write_bytes(line(report("n1")))
    answer = json.loads(doctor("fleet", "merge", tmp_path, "--expect", "n[1-2]", "--json").stdout)

    assert (answer["exit_status"], answer["nodes"]["unreadable"], answer["nodes"]["missing"]) == (3, ["n2"], [])


def test_the_age_of_reports_counts_by_default(doctor: Doctor, tmp_path: Path) -> None:
    """A node that died last month does not stay fit for as long as its file lies there."""
    (tmp_path / "n1.json").write_bytes(line(report("n1", created="2025-01-01T00:00:00+00:00")))

    run = doctor("fleet", "merge", tmp_path)
    assert run.status == 3
    assert "too old" in run.stdout
    assert doctor("fleet", "merge", tmp_path, "--max-age", "9999d").status == 0


def test_a_page_of_many_nodes(doctor: Doctor, tmp_path: Path) -> None:
    """What nearly all nodes have names the others; odd nodes have places on the page; lists can be copied."""
    nodes = [
        report(f"n{number * 7:04d}", **{"packages.torch": "2.12.1"} if number < 3 else {}) for number in range(400)
    ]
    warned = [found(one, severity="warning") if number > 10 else one for number, one in enumerate(nodes)]
    (tmp_path / "all.ndjson").write_bytes(b"".join(map(line, warned)))
    page = doctor("fleet", "merge", tmp_path, "--format", "html").stdout

    assert "all but 11 of 400: n[0000" in page
    assert page.count("n2786") == 1  # in the list of fit nodes alone
    assert '<a href="#node-0">n0000</a>' in page
    assert '<dt id="node-0"><b>n0000</b> drifts</dt>' in page
    assert "n0000 n0007 n0014</textarea>" in page


def test_lists_of_nodes(doctor: Doctor, folder: Path, tmp_path: Path) -> None:
    """One file a state, and one of all that are not fit; empty ones are written too."""
    doctor("fleet", "merge", folder, "--expect", "n[1-6]", "--write-lists", tmp_path / "lists")
    lists = {file.name: file.read_text().split() for file in (tmp_path / "lists").iterdir()}

    assert lists["exclude_nodes.txt"] == ["n2", "n3", "n4", "n6"]
    assert lists["fit_nodes.txt"] == ["n1", "n5"]
    assert lists["missing_nodes.txt"] == ["n6"]
    assert lists["unsure_nodes.txt"] == []


def test_hostile_words_reach_no_terminal(doctor: Doctor, tmp_path: Path) -> None:
    """Control characters, markup and lone surrogates in what nodes say."""
    odd = report("n1", **{"packages.torch": "\x1b[31mred\x07 [bold]x[/] \ud800"})
    file = tmp_path / "reports.ndjson"
    file.write_bytes(line(odd) + line(report("n2")) + line(report("n3")))
    for form in ("text", "html", "json", "prometheus"):
        run = doctor("fleet", "merge", file, "--format", form)
        assert (run.status, run.stderr) == (1, ""), form
        assert "\x1b" not in run.stdout
        assert "\x07" not in run.stdout


def test_golden_and_back(doctor: Doctor, folder: Path, tmp_path: Path) -> None:
    """What it cannot put in is named, and status 3 says that something was unreadable."""
    made = doctor("fleet", "golden", folder, "--output", tmp_path / "golden.json")
    assert made.status == 3
    assert "n4" in made.stderr
    (folder / "n4.9f2c.json").unlink()
    (folder / "n2.9f2c.json").unlink()
    run = doctor("fleet", "merge", folder, "--golden", tmp_path / "golden.json")
    assert run.status == 1
    assert "differs from the golden file" in run.stdout


@pytest.mark.process
def test_waiting(folder: Path) -> None:
    """A report that comes later is waited for, and no longer than that."""
    for file in ("n2", "n3", "n4"):
        (folder / f"{file}.9f2c.json").unlink()

    def late() -> None:
        time.sleep(2)
        (folder / "n6.9f2c.json").write_bytes(line(report("n6")))

    hand = threading.Thread(target=late)
    hand.start()
    begun = time.monotonic()
    done = run_here("fleet", "merge", folder, "--expect", "n1,n5,n6", "--wait", 60)
    hand.join()

    assert (done.returncode, "fit: 3 fit of 3" in done.stdout) == (0, True), done.stdout
    assert time.monotonic() - begun < 30


@pytest.mark.process
def test_yesterdays_report_is_not_what_is_waited_for(tmp_path: Path) -> None:
    """With --max-age the report that lies there from before does not end the waiting; the new one does."""
    (tmp_path / "n1.9f2c.json").write_bytes(line(report("n1", created="2020-01-01T00:00:00+00:00")))
    arguments = ("fleet", "merge", tmp_path, "--expect", "n1", "--max-age", "6h", "--wait")
    alone = run_here(*arguments, 1)

    def late() -> None:
        time.sleep(2)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        (tmp_path / ".new").write_bytes(line(report("n1", created=now)))
        (tmp_path / ".new").replace(tmp_path / "n1.9f2c.json")

    hand = threading.Thread(target=late)
    hand.start()
    done = run_here(*arguments, 60)
    hand.join()

    assert (alone.returncode, "too old\n  n1  last examined on 2020-01-01" in alone.stdout) == (3, True), alone.stdout
    assert (done.returncode, "fit: 1 fit of 1" in done.stdout) == (0, True), done.stdout


@pytest.mark.process
def test_standard_input(folder: Path) -> None:
    """A pipe."""
    text = b"".join(file.read_bytes() for file in sorted(folder.glob("n[15]*")))
    done = run_here("fleet", "merge", "-", stdin=text.decode())

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("merge", "/nothing/there"), "no such file"),
        (("merge", ".", "--expect", "n[1-"), "no set of nodes"),
        (("merge", ".", "--expect", "slurm"), "Slurm does not say"),
        (("merge", ".", "--golden", "README.md"), "not JSON"),
        (("merge", ".", "--golden", "/nothing"), "cannot be read"),
        (("merge", ".", "--cohort-by", "colour"), "no cohort has that"),
        (("merge", ".", "--max-age", "soon"), "no span of time"),
        (("merge", ".", "--wait", "5"), "only folders can be waited for"),
        (("merge", ".", "--write-lists", "README.md"), "cannot be made"),
        (("merge", ".", "--output", "/nothing/x"), "no such folder"),
        (("run", "--engine", "clush"), "needs the names of the nodes"),
        (("run", "--engine", "clush", "-w", "n1", "--", "--json"), "needs the reports itself"),
        (("hook", "slurm-job", "--plan", "/nothing"), "no such plan"),
    ],
)
def test_bad_input(doctor: Doctor, arguments: tuple[str, ...], words: str) -> None:
    """One clear message, status 2, no traceback."""
    # Where Slurm's own commands are, they ask for their server for half a minute.
    path = "/nothing" if "slurm" in arguments else os.environ["PATH"]
    run = doctor("fleet", *arguments, env={"PATH": path, "SLURM_CONF": "/nothing/slurm.conf"})

    assert run.status == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_the_command_without_starting_it(doctor: Doctor) -> None:
    """--dry-run prints what `fleet run` would start; every word of it is quoted."""
    run = doctor("fleet", "run", "--engine", "clush", "-w", "n[1-3]", "--dry-run", "--", "--only", "a b")

    assert run.status == 0
    assert run.stdout.startswith("clush -S -f 64")
    assert "'n[1-3]'" in run.stdout
    assert "a b" in run.stdout
