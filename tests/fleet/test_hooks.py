"""Hooks are whole files that their readers can parse, with odd paths quoted."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attn_doctor.fleet.hooks import FILES, Hook, Places, written
from attn_doctor.quick_dataclasses import replace
from tests.conftest import Doctor, Environment

pytestmark = pytest.mark.process

ODD = Places(
    version="1.2.3",
    doctor=("/opt/it's here/attn-doctor",),
    python='/srv/en v/"x"',
    reviewed=("--only", "a b"),
    check=("--only", "x-$HOME"),
    folder="/etc/attn doctor",
)


@pytest.mark.parametrize("hook", Hook)
def test_every_place_is_filled(hook: Hook) -> None:
    """None is left open, and each hook has its files."""
    files = written(hook, ODD)

    assert tuple(files) == FILES[hook]
    assert [name for name, text in files.items() if "@@" in text or ("1.2.3" not in text and name != "npd.json")] == []


@pytest.mark.parametrize("name", [name for files in FILES.values() for name in files if name.endswith(".sh")])
def test_scripts_parse(name: str, tmp_path: Path) -> None:
    """By the shell that runs them; and by shellcheck where there is one."""
    hook = next(hook for hook, files in FILES.items() if name in files)
    file = tmp_path / name
    file.write_text(written(hook, ODD)[name])
    checked = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    if shutil.which("shellcheck"):
        assert subprocess.run(["shellcheck", "-S", "warning", str(file)]).returncode == 0


def test_manifests_parse() -> None:
    """And say what they should, odd paths included."""
    job: Any = YAML(typ="safe").load(written(Hook.K8S, ODD)["k8s.yaml"])
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == list(ODD.doctor)
    assert container["args"][-4:] == ["--only", "x-$HOME", "--python", ODD.python]
    assert json.loads(written(Hook.NPD, ODD)["npd.json"])["rules"][0]["path"] == "/etc/attn doctor/npd-check.sh"
    plugin: Any = YAML(typ="safe").load(written(Hook.GPUD, ODD)["gpud.yaml"])[0]
    script = plugin["health_state_plugin"]["steps"][0]["run_bash_script"]["script"]
    assert subprocess.run(["bash", "-n", "-c", script]).returncode == 0


#: Started as the engine's command: runs the job's program, as its scheduler would, where one can be had.
_ENGINE = """#!/bin/bash
while [ "$#" -gt 0 ] && [ "$1" != timeout ] && [ "$1" != "$(command -v timeout)" ]; do
  [[ $1 == *n3* ]] && exit 1
  shift
done
exec "$@"
"""


@pytest.mark.parametrize(("hook", "program"), [(Hook.PBS, "qsub"), (Hook.LSF, "bsub"), (Hook.FLUX, "flux")])
def test_a_job_a_node(hook: Hook, program: str, tmp_path: Path) -> None:
    """Each writes its report into the folder; a node that the engine refuses is named, and costs nobody else's."""
    tools, doctor, reports = tmp_path / "tools", tmp_path / "attn doctor", tmp_path / "reports"
    tools.mkdir()
    (tools / program).write_text(_ENGINE)
    doctor.write_text('#!/bin/bash\nwhile [ "$1" != --output ]; do shift; done\necho here >> "$2/report.json"\n')
    for file in (tools / program, doctor):
        file.chmod(0o755)
    (name,) = FILES[hook]
    script = tmp_path / name
    script.write_text(written(hook, replace(ODD, doctor=(str(doctor),)))[name])
    done = subprocess.run(
        ["bash", str(script), str(reports), "n1", "n2", "n3"], capture_output=True, text=True, cwd=tmp_path,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (3, "n3: refused\n")
    assert (reports / "report.json").read_text() == "here\nhere\n"
    assert subprocess.run(["bash", str(script), str(reports)], capture_output=True).returncode == 2


def test_playbook_and_task_parse() -> None:
    """As YAML, odd paths included; the playbook gives a node the name that the inventory has for it."""
    (play,) = YAML(typ="safe").load(written(Hook.ANSIBLE, ODD)["ansible.yml"])
    examine = play["tasks"][1]
    assert examine["ansible.builtin.command"]["argv"][:5] == [*ODD.doctor, "check", "--quick", "--python", ODD.python]
    assert examine["environment"] == {"NODE_NAME": "{{ inventory_hostname }}"}
    task: Any = YAML(typ="safe").load(written(Hook.SKYPILOT, ODD)["skypilot.yaml"])
    assert subprocess.run(["bash", "-n", "-c", task["run"]]).returncode == 0
    assert "--format chunks --exit-zero" in task["run"]


def test_npd_reads_the_last_report(doctor: Doctor, environment: Any, tmp_path: Path) -> None:
    """Unknown (2 or more) without one; 0 and one line of at most 80 characters with one."""
    env: Environment = environment()
    env.metadata("torch", "2.13.0")
    made = doctor("fleet", "hook", "npd", "--python", env.folder, "--install", tmp_path / "hooks")
    assert made.status == 0
    script = (tmp_path / "hooks" / "npd-check.sh").read_text()
    assert (tmp_path / "hooks" / "npd-check.sh").stat().st_mode & 0o111
    here = tmp_path / "npd.sh"
    here.write_text(script.replace("/var/lib/attn-doctor", str(tmp_path / "reports")))

    def asked() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(here)], capture_output=True, text=True, cwd=Path(__file__).parents[2])

    assert asked().returncode >= 2
    assert doctor("check", "--quick", "--python", env.python, "--output", f"{tmp_path}/reports/").status == 0
    done = asked()
    assert (done.returncode, len(done.stdout.strip()) <= 80) == (0, True)


def test_a_job_for_each_node() -> None:
    """Pinned to its node, with a name of its own: none is left out, and none has two."""
    names = ("gpu-01", "GPU_01.rack.site", "x" * 60, "x" * 61)
    places = replace(ODD, nodes=names)
    jobs: list[Any] = list(YAML(typ="safe").load_all(written(Hook.K8S, places)["k8s.yaml"]))
    pinned = [
        job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for job in jobs
    ]

    assert [one["nodeSelectorTerms"][0]["matchFields"][0]["values"] for one in pinned] == [[name] for name in names]
    assert len({job["metadata"]["name"] for job in jobs}) == 4
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", job["metadata"]["name"]) for job in jobs)


@pytest.mark.parametrize("hook", [Hook.K8S, Hook.K8S_DAEMONSET])
def test_pods_take_no_gpu_and_see_all(hook: Hook) -> None:
    """However many the node has; they go to tainted nodes; one index that fails costs itself."""
    manifest: Any = YAML(typ="safe").load(next(iter(written(hook, ODD).values())))
    pod = manifest["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert "nvidia.com/gpu" not in json.dumps(container["resources"])
    assert pod["tolerations"] == [{"operator": "Exists"}]
    if hook is Hook.K8S:
        assert manifest["spec"]["backoffLimitPerIndex"] == 1
        assert "backoffLimit" not in manifest["spec"]
    else:
        assert container["args"][1:4] == ["attn-doctor", ODD.doctor[0], "check"]
        assert container["args"][-3:] == ["x-$HOME", "--python", ODD.python]
        assert pod["volumes"][0]["hostPath"]["path"] == container["volumeMounts"][0]["mountPath"]


def played(folder: Path, name: str, text: str) -> Path:
    """A program that does what a test needs."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def healthcheck(tmp_path: Path, doctor_does: str, scontrol_does: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The health check with DRAIN=yes, a doctor and a scontrol of this test."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    played(programs, "scontrol", scontrol_does)
    places = Places(version="1", doctor=(str(played(programs, "doctor", doctor_does)),), python="/x")
    text = written(Hook.SLURM_HEALTHCHECK, places)["slurm-healthcheck.sh"]
    text = text.replace("DRAIN=no", "DRAIN=yes").replace("/var/lib/attn-doctor", str(tmp_path / "reports"))
    text = (
        text.replace("export PATH=", f"export PATH={programs}:")
        .replace("-k 1 5", "-k 1 1")
        .replace("-k 2 35", "-k 1 1")
    )
    script = played(tmp_path, "hc.sh", "")
    script.write_text(text)
    (tmp_path / "reports").mkdir(exist_ok=True)
    base = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "n7"}
    return subprocess.run([str(script)], capture_output=True, text=True, timeout=30, env={**base, **env})


def test_a_doctor_that_hangs_does_not_hold_slurmd(tmp_path: Path) -> None:
    """Each question has a limit of its own, and no answer drains nobody."""
    done = healthcheck(tmp_path, "exec sleep 60", f"touch {tmp_path}/drained")

    assert "gave no answer" in done.stdout
    assert not (tmp_path / "drained").exists()


def test_slurm_conf_is_handed_on(tmp_path: Path) -> None:
    """scontrol finds it as the slurmd does that runs the script."""
    said = tmp_path / "said"
    healthcheck(
        tmp_path,
        "echo attn-doctor n7: ill; exit 1",
        f'echo "$SLURM_CONF $*" > {said}',
        SLURM_CONF="/opt/site/slurm.conf",
    )

    assert said.read_text().startswith("/opt/site/slurm.conf update nodename=n7 state=drain")


def test_a_drain_that_failed_is_told(tmp_path: Path) -> None:
    """On standard output, which slurmd may log, and in a file."""
    done = healthcheck(tmp_path, "echo attn-doctor n7: ill; exit 1", "echo slurm_load_node: no controller >&2; exit 1")

    assert done.returncode == 1
    assert "NOT DRAINED" in done.stdout
    assert "no controller" in (tmp_path / "reports" / "slurm-healthcheck.log").read_text()


def test_an_image_has_its_own_paths(doctor: Doctor) -> None:
    """No path of the machine that writes the manifest is in it, unless somebody names one."""

    def container(*more: str) -> Any:
        run = doctor("fleet", "hook", "k8s", *more)
        assert run.status == 0, run.stderr
        return YAML(typ="safe").load(run.stdout)["spec"]["template"]["spec"]["containers"][0]

    plain = container("--check-arg=--quick")
    assert plain["command"] == ["attn-doctor"]
    assert plain["args"] == ["check", "--format", "chunks", "--exit-zero", "--quick", "--python", "python3"]
    named = container("--doctor", "/opt/doctor", "--python", "/opt/train")
    assert (named["command"], named["args"][-2:]) == (["/opt/doctor"], ["--python", "/opt/train"])


@pytest.mark.parametrize(
    "words",
    [
        ("npd", "--check-arg=--quick"),
        ("gpud", "--check-arg=--quick"),
        ("k8s", "--fix", "x-transformers-rotary-fp32"),
        ("slurm-healthcheck", "--unsafe-fixes"),
        ("slurm-taskprolog", "--fix-arg=--no-index"),
        ("slurm-healthcheck", "--plan", __file__),
        ("slurm-job", "--check-arg=--bogus"),
        ("slurm-job", "--fix", "x;y"),
        ("slurm-job", "--fix", "x-transformers-rotary-fp32=no-such-remedy"),
    ],
    ids=" ".join,
)
def test_nothing_is_ignored(doctor: Doctor, words: tuple[str, ...]) -> None:
    """Unused options and unknown findings are refused before anything is written."""
    run = doctor("fleet", "hook", *words)

    assert (run.status, run.stdout) == (2, "")
    assert words[1].partition("=")[0] in run.stderr
    assert "Traceback" not in run.stderr


#: Doctors that end with 1, which means findings, and only the first has found something.
ENDS_WITH_1 = {
    "found": "echo 'attn-doctor n1: 1 error: x'; exit 1",
    "package gone": f"exec {sys.executable} -m attn_doctor_that_is_gone",
    "Python cannot start": f"PYTHONHOME=/nonexistent exec {sys.executable} -m attn_doctor",
    "says nothing": "exit 1",
    "warns only": "echo 'attn-doctor is being upgraded'; exit 1",
}


@pytest.mark.parametrize("case", ENDS_WITH_1)
def test_a_broken_attn_doctor_is_no_finding(case: str, tmp_path: Path) -> None:
    """Drains no node, fails no task and is no problem of the node: where the file server is ill, it is so on all."""
    stub, tools, drained = tmp_path / "doctor", tmp_path / "tools", tmp_path / "drained"
    stub.write_text(f"#!/bin/bash\n{ENDS_WITH_1[case]}\n")
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {drained}\n')
    for file in (stub, tools / "scontrol"):
        file.chmod(0o755)

    def ended(hook: Hook, name: str) -> subprocess.CompletedProcess[str]:
        text = written(hook, Places(version="1", doctor=(str(stub),), python="/srv/train"))[name]
        text = text.replace("DRAIN=no", "DRAIN=yes").replace("GATE=no", "GATE=yes")
        text = text.replace("PATH=/", f"PATH={tools}:/").replace("/var/lib/attn-doctor", str(tmp_path / "reports"))
        (tmp_path / name).write_text(text)
        shell = text.splitlines()[0].removeprefix("#!")
        return subprocess.run([shell, str(tmp_path / name)], capture_output=True, text=True)

    ill = case == "found"
    assert ended(Hook.SLURM_HEALTHCHECK, "slurm-healthcheck.sh").returncode == (1 if ill else 3)
    assert (drained.read_text() if ill else drained.exists()) == (
        f"update nodename={socket.gethostname().partition('.')[0]} state=drain "
        "reason=[node_problem] attn-doctor n1: 1 error: x\n"
        if ill
        else False
    )
    assert ended(Hook.SLURM_TASKPROLOG, "slurm-taskprolog.sh").returncode == int(ill)
    npd = ended(Hook.NPD, "npd-check.sh")
    assert npd.returncode == (1 if ill else 2)
    assert 0 < len(npd.stdout.strip()) <= 80


@pytest.mark.parametrize("case", ["package gone", "says nothing"])
def test_the_job_tells_a_broken_attn_doctor_from_ill_nodes(case: str, tmp_path: Path) -> None:
    """3, not 1, and not a word that a node is unfit: none was looked at."""
    stub, script = tmp_path / "doctor", tmp_path / "job.sh"
    stub.write_text(f"#!/bin/bash\n{ENDS_WITH_1[case]}\n")
    stub.chmod(0o755)
    script.write_text(written(Hook.SLURM_JOB, Places(version="1", doctor=(str(stub),), python="/x"))["slurm-job.sh"])
    job = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", str(script), "echo", "RAN"], capture_output=True, text=True, env=job)

    assert (done.returncode, "RAN" in done.stdout) == (3, False)
    assert "gave no answer" in done.stdout
    assert "fit" not in done.stdout


#: Answers `fleet run` by the lists of a file, and `fix` by a status; tells what it was asked.
STUB = """#!/bin/bash
echo "$1" >> "$0.asked"
if [ "$1" = fix ]; then [ -z "$CHANGES" ] || mkdir -p "$ENVIRONMENT/.attn-doctor/runs/1"; exit "$FIX"; fi
while [ "$1" != --write-lists ]; do shift; done
mkdir -p "$2"
for one in fit:$FIT failing:$FAILING exclude:$FAILING; do
  tr ' ' '\\n' <<< "${one#*:}" | sed '/^$/d' > "$2/${one%%:*}_nodes.txt"
done
exit 1
"""


@pytest.mark.parametrize(
    ("given", "examined", "excluded"),
    [
        ({"FIX": "1", "FIT": "", "FAILING": "n1 n2"}, 1, False),
        ({"FIX": "1", "FIT": "n1", "FAILING": "n2"}, 1, True),
        ({"FIX": "0", "FIT": "n1", "FAILING": "n2"}, 1, True),
        ({"FIX": "0", "FIT": "", "FAILING": "n1 n2"}, 2, False),
        ({"FIX": "1", "FIT": "", "FAILING": "n1 n2", "CHANGES": "1"}, 2, False),
    ],
    ids=["nothing changed, all fail", "nothing changed", "well here", "another job's fix", "changed"],
)
def test_the_job_does_no_more_than_helps(
    tmp_path: Path, given: dict[str, str], examined: int, *, excluded: bool
) -> None:
    """No second examination of every node where the fix changed nothing; never a hint to leave out all nodes."""
    stub, environment = tmp_path / "doctor", tmp_path / "train"
    stub.write_text(STUB)
    stub.chmod(0o755)
    environment.mkdir()
    places = Places(version="1", doctor=(str(stub),), python=str(environment), reviewed=("--only", "x"))
    script = tmp_path / "job.sh"
    script.write_text(written(Hook.SLURM_JOB, places)["slurm-job.sh"])
    job = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_SUBMIT_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, env={**job, "ENVIRONMENT": str(environment), **given}
    )

    assert done.returncode == 1
    assert (tmp_path / "doctor.asked").read_text().split().count("fleet") == examined, done.stdout
    assert ("--exclude=n2" in done.stdout, "--exclude=n1" in done.stdout) == (excluded, False)


def test_a_review_is_needed_for_a_fix(doctor: Doctor) -> None:
    """--unsafe-fixes without a finding or a plan is no review."""
    run = doctor("fleet", "hook", "slurm-job", "--unsafe-fixes")

    assert run.status == 2
    assert "nothing was reviewed" in run.stderr


def test_paths_are_those_of_whoever_writes_the_hook(doctor: Doctor, tmp_path: Path) -> None:
    """It runs elsewhere: what was named relative to the current folder is absolute in it."""
    (tmp_path / "site.toml").touch()
    run = doctor(
        "fleet", "hook", "slurm-job", "--python", "env", "--doctor", "./doc", "--check-arg=--accept=site.toml",
        "--check-arg=--config", "--check-arg=sub/../a.yaml", "--fix", "torch-cpu-build",
        "--fix-arg=--find-links=wheels",
        cwd=tmp_path,
    )  # fmt: skip

    assert run.status == 0, run.stderr
    for words in (
        f"doctor=({tmp_path}/doc)",
        f"environment={tmp_path}/env",
        f"--accept={tmp_path}/site.toml --config {tmp_path}/sub/../a.yaml",
        f"--find-links={tmp_path}/wheels",
    ):
        assert words in run.stdout


@pytest.mark.parametrize("hook", [one for one in Hook if one not in (Hook.NPD, Hook.GPUD)])
def test_every_hook_names_the_environment(hook: Hook, doctor: Doctor) -> None:
    """Where a scheduler starts it, what lies in the current folder may be anybody's."""
    text = doctor("fleet", "hook", hook.value).stdout

    for line in text.splitlines():
        if "check --quick" in line or "--format" in line:
            assert "--python" in line
