"""The Ray adapter without Ray: which nodes there are, what is asked, what is said when Ray is not there.

With a real Ray: tests/scenarios/test_ray.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fleet import on_ray
from attn_doctor.fleet.launch import Engine, Launch
from attn_doctor.patient import ray_nodes
from tests.conftest import Doctor


def row(host: str, number: str, *, alive: bool = True, **rest: Any) -> dict[str, Any]:
    """A node as ray.nodes() tells it."""
    return {"NodeManagerHostname": host, "NodeID": number * 56, "Alive": alive, **rest}


def test_nodes_are_called_by_their_hosts() -> None:
    """Two Ray nodes of one host are told apart; a dead one has a reason, one that came back is alive."""
    alive, dead = ray_nodes.names(
        [
            row("n1", "a"),
            row("n2", "b"),
            row("n2", "c"),
            row("n3", "d", alive=False, DeathReasonMessage="health check failed"),
            row("n1", "e", alive=False),
        ]
    )

    assert sorted(alive) == ["n1", "n2-bbbbbbbb", "n2-cccccccc"]
    assert dead == {"n3": "Ray says it is dead: health check failed"}


@pytest.mark.process
def test_on_the_node() -> None:
    """The command gets the node's name and the worker's Python, and ends within its limit."""
    script = "import os, sys; print(os.environ['NODE_NAME'], sys.argv[1:])"
    out, said = ray_nodes.on_node([sys.executable, "-c", script], "n7", 30)
    assert out.decode().split(maxsplit=1) == ["n7", f"['--python', {sys.executable!r}]\n"]
    assert said == ""

    began = time.monotonic()
    out, said = ray_nodes.on_node(["sh", "-c", "echo started; sleep 60"], "n7", 1)
    assert time.monotonic() - began < 30
    assert (out, said) == (b"started\n", "not ended after 1 s")

    assert "cannot be started" in ray_nodes.on_node(["/no/such/doctor"], "n7", 1)[1]


def test_the_command() -> None:
    """One list of words: Ray's Python, the nodes, both limits, and the doctor under timeout(1)."""
    launch = Launch(
        engine=Engine.RAY,
        nodes=("n1", "n2"),
        doctor=("doctor",),
        timeout=60,
        asking=("python", "x", "--address", "a:1"),
    )

    assert launch.command()[:8] == ("python", "x", "--address", "a:1", "run", "n1,n2", "80", "110")
    assert launch.command()[8:14] == ("timeout", "-k", "5", "60", "doctor", "check")
    assert launch.limit > 110


@pytest.mark.parametrize("address", ["local", "http://127.0.0.1:8265"])
def test_no_cluster_is_started(address: str) -> None:
    """An address that would start a cluster, or that is none of its head, is refused."""
    with pytest.raises(BadInput, match="no address"):
        on_ray.head(address, {"PATH": ""})


def test_without_ray(doctor: Doctor) -> None:
    """One message in three parts, exit status 2."""
    run = doctor("fleet", "run", "--engine", "ray", env={"PATH": "/nowhere"})

    assert run.status == 2
    assert "Ray is not installed in this environment" in run.stderr
    assert "Activate the environment" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.process
def test_dead_nodes_have_reasons(tmp_path: Path) -> None:
    """Of those named, a dead one and an unknown one say why; unnamed, the dead count only where expected."""
    script = tmp_path / "asking"
    script.write_text("""#!/bin/sh\necho '{"n1": "", "n2": "Ray says it is dead: ?"}'\n""")
    script.chmod(0o755)

    asking = (str(script),)
    assert on_ray.nodes(asking) == {"n1": ""}
    assert on_ray.nodes(asking, expected=("n1", "n2")) == {"n1": "", "n2": "Ray says it is dead: ?"}
    assert on_ray.nodes(asking, among=("n1", "n9")) == {"n1": "", "n9": "Ray knows no such node"}
