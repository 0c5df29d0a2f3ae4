"""Under a real torchrun: what differs between nodes is found before the first collective.

Two agents on this machine stand for two nodes, each with its own name and its own environment, two ranks on each. The
training script is the one that docs/fleet.md shows.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import CHECKOUT, Environment, clean_environment, make_environment, needs_torch

pytestmark = needs_torch

#: After the gate: a collective that needs all four.
_TRAINING = """
import torch
import torch.distributed as dist

print("reached init_process_group", flush=True)
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(f"trained with {int(one)}", flush=True)
dist.destroy_process_group()
"""


def _gate() -> str:
    """The snippet of docs/fleet.md, under "Under torchrun"."""
    text = (CHECKOUT / "docs" / "fleet.md").read_text().partition("### Under torchrun")[2]
    (found,) = re.findall(r"```python\n(.*?)```", text.partition("\n### ")[0], flags=re.DOTALL)
    return str(found)


#: The store of the rendezvous, until its standard input ends. By default the first agent holds it, and when that one
#: ends before the other, the other fails for want of the store instead of saying what its ranks ended with.
_STORE = """
import sys
from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _store() -> Iterator[int]:
    """The port of a store that outlives all agents."""
    process = subprocess.Popen(
        [sys.executable, "-c", _STORE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=60)


def _rename(patient: Environment, version: str) -> None:
    """The same torch, which runs as before, under another version."""
    alone = patient.folder / "torch-alone"
    for metadata in alone.glob("torch-*.dist-info"):
        metadata.unlink()
    patient.metadata("torch", version)
    link = alone / "torch"
    real = link.resolve()
    link.unlink()
    link.mkdir()
    for entry in real.iterdir():
        if entry.name != "version.py":
            (link / entry.name).symlink_to(entry)
    text = (real / "version.py").read_text()
    (link / "version.py").write_text(re.sub(r"__version__ = .*", f"__version__ = {version!r}", text))


def _torchrun(folder: Path, torches: dict[str, str | None]) -> dict[str, tuple[int, str]]:
    """Exit status and output of the agent of each node, which has this torch; None: the tests' own."""
    (folder / "train.py").write_text(_gate() + _TRAINING)
    with _store() as port:
        return _agents(folder, torches, port)


def _agents(folder: Path, torches: dict[str, str | None], port: int) -> dict[str, tuple[int, str]]:
    agents = {}
    for rank, (node, torch) in enumerate(torches.items()):
        patient = make_environment(folder / node / "env", torch=True)
        if torch is not None:
            _rename(patient, torch)
        agents[node] = subprocess.Popen(
            [
                str(patient.python), "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(rank),
                "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                "--rdzv-conf", "is_host=0",
                "--rdzv-id", "job", "--local-addr", "127.0.0.1", str(folder / "train.py"),
            ],
            cwd=CHECKOUT,
            env=clean_environment(
                NODE_NAME=node, REPORTS=str(folder / "reports"), NODES=",".join(torches),
                PYTHONPATH=str(CHECKOUT), OMP_NUM_THREADS="1",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
    try:
        said = {node: agent.communicate(timeout=120)[0] for node, agent in agents.items()}
    finally:
        for agent in agents.values():
            agent.kill()
    return {node: (agents[node].returncode, said[node]) for node in agents}


def test_another_torch_on_one_node(tmp_path: Path) -> None:
    """Both nodes say which has which, once each; no rank comes as far as init_process_group."""
    for status, said in _torchrun(tmp_path, {"n1": None, "n2": "2.12.1"}).values():
        assert status == 1, said
        assert "exitcode  : 1 " in said
        assert said.count("not fit: 2 drift of 2") == 1
        told = "\n".join(line for line in said.splitlines() if "packages.torch" in line)
        assert all(word in told for word in ("2.12.1", "n1", "n2")), said
        assert "reached init_process_group" not in said


def test_equal_nodes_train(tmp_path: Path) -> None:
    """One report a node, the verdict once a node, and all four ranks go on."""
    for status, said in _torchrun(tmp_path, {"n1": None, "n2": None}).values():
        assert status == 0, said
        assert said.count("fit: 2 fit of 2") == 1
        assert said.count("trained with 4") == 2
    (reports,) = (tmp_path / "reports").iterdir()
    assert sorted(file.name.partition(".")[0] for file in reports.iterdir()) == ["n1", "n2"]
