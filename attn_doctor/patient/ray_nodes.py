"""Runs one task on each node of an existing Ray cluster; each task runs the given command. Run with Ray's own Python.

    python ray_nodes.py [--address A] list                                 {node: "" or why it cannot be used}, as JSON
    python ray_nodes.py [--address A] run NAMES SECONDS LIMIT COMMAND...   `node: line` as nodes answer

Decides nothing and starts no cluster. The caller reads the output; a node without output is missing.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict, List, Tuple

if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.dirname(os.path.realpath(__file__)):
    del sys.path[0]  # run as a script: the other files of this folder must not hide modules that Ray imports


def names(nodes: List[Dict[str, Any]]) -> Tuple[Dict[str, Dict[str, Any]], Dict[str, str]]:
    """Ray's rows → ({name: row} of live nodes, {name: reason} of the others).

    Named by host name, as in reports; on hosts with several Ray nodes, by host name and the start of Ray's id.
    """
    hosts = [row["NodeManagerHostname"] for row in nodes if row["Alive"]]
    alive, dead = {}, {}
    for row in nodes:
        host = row["NodeManagerHostname"]
        name = "%s-%s" % (host, row["NodeID"][:8]) if hosts.count(host) > 1 else host
        if row["Alive"]:
            alive[name] = row
        else:
            dead[name] = "Ray says it is dead: %s" % (row.get("DeathReasonMessage") or row.get("DeathReason") or "?")
    return alive, {name: why for name, why in dead.items() if name not in alive}  # a node that came back is alive


def on_node(command: List[str], name: str, seconds: float) -> Tuple[bytes, str]:
    """Runs on the node → (standard output, last message). Ray sends this function itself: the node needs no file of
    ours.
    """
    import os
    import signal
    import subprocess
    import sys

    environment = dict(os.environ, NODE_NAME=name)
    environment.pop("SLURMD_NODENAME", None)  # the node's name must be the one in Ray's list
    if not any(word.split("=")[0] == "--python" for word in command):
        command = [*command, "--python", sys.executable]  # training uses the environment of Ray's workers
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return b"", "%s: cannot be started: %s" % (command[0], error.strerror)
    late = ""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        late = "not ended after %d s" % seconds
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    if process.returncode in (124, 137) and not late:
        late = "ended by timeout(1)"
    said = err.decode(errors="replace").strip().splitlines()[-4:]
    return out, " / ".join([late, *said] if late else said)


def run(
    ray: Any,
    alive: Dict[str, Dict[str, Any]],
    wanted: List[str],
    seconds: float,
    limit: float,
    command: List[str],
    write: Callable[..., None] = print,
) -> None:
    """Writes output as it arrives; nodes without an answer within `limit` seconds are listed on standard error."""
    import time

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Zero CPUs are requested, so that a node whose CPUs a training holds answers as well. The variable: before 2.5x Ray
    # hides the GPUs from a task that requests none. max_retries: silent retries on a dead node took 14 s.
    task = ray.remote(num_cpus=0, max_retries=0, runtime_env={"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}})
    pending = {}
    for name in wanted:
        if name in alive:
            there = NodeAffinitySchedulingStrategy(alive[name]["NodeID"], soft=False)
            pending[task(on_node).options(scheduling_strategy=there).remote(command, name, seconds)] = name
        else:
            sys.stderr.write("%s: not alive any more, Ray says\n" % name)
    until = time.monotonic() + limit
    while pending:
        done, _ = ray.wait(list(pending), num_returns=1, timeout=max(0.0, until - time.monotonic()))
        if not done:
            break  # a frozen node stays pending for ever: Ray has no limit of its own
        name = pending.pop(done[0])
        try:
            out, said = ray.get(done[0])
        except Exception as error:
            words = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
            sys.stderr.write("%s: Ray: %s: %s\n" % (name, type(error).__name__, words[0][:300]))
            continue
        for line in out.decode("utf-8", "replace").splitlines():
            write("%s: %s" % (name, line), flush=True)
        if said:
            sys.stderr.write("".join("%s: %s\n" % (name, line) for line in said.splitlines()))
    for name in pending.values():
        sys.stderr.write("%s: no answer through Ray within %d s\n" % (name, limit))


def main(words: List[str]) -> None:
    address = None
    if words[:1] == ["--address"]:
        address, words = words[1], words[2:]
    import ray

    # Never None or "local", which start a cluster.
    ray.init(address=address or os.environ.get("RAY_ADDRESS") or "auto", log_to_driver=False, logging_level="ERROR")
    alive, dead = names(ray.nodes())
    if words[0] == "list":
        print(json.dumps({**dead, **dict.fromkeys(alive, "")}), flush=True)
    else:
        run(ray, alive, words[1].split(","), float(words[2]), float(words[3]), words[4:])


if __name__ == "__main__":
    main(sys.argv[1:])
