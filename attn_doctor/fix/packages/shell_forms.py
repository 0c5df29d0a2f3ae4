"""Puts commands into the form of the installer and the shell that a log shows.

A recipe's commands are bash and pip. Windows gets PowerShell, whose quotes and redirections differ; a project of uv or
poetry, a notebook and a program with a Python of its own get the way in which these reach their packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attn_doctor.model.facts import FactSet
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.torch_releases import index_of, index_on_windows

#: The pin of the torch that is there, which bash asks for in the middle of a command.
_ASKED = when_used(r'"torch==\$\((?P<python>[^\n]{1,200}?) -c [^\n]{1,80}\[0\]\)\'\)"')
_KEPT_IN = "torch.txt"
#: A torch that is asked for, and what says where it is to come from.
_TORCH = when_used(r"[ \"']torch(?P<wanted>(?:[=<>~!]=?[^\"' $]+)?)(?=[\"' ]|$)")
_OTHERS = when_used(r"(?:^| )[\"']?(?!torch(?:vision|audio)?\b(?!-)|-)[A-Za-z]")
_NAMED = when_used(r"index-url|torch-backend|find-links|https?:| -[cefir] |==\$\(|--no-deps torch\b|--dry-run")
_PIP = when_used(r"^(?P<python>python) -m pip (?P<verb>install|uninstall|list|show|freeze|check|cache)\b")
_SET = when_used(r"^(?:export )?(?P<settings>(?:[A-Z_][A-Z_0-9]*=(?:\"[^\"$]*\"|'[^'$]*'|[^\s$\"']*) ?)+)(?P<rest>.*)$")
_SETTING = when_used(r"(?P<name>[A-Z_][A-Z_0-9]*)=(?P<value>\"[^\"]*\"|'[^']*'|\S*)")
#: Settings for one command, and what is done before it.
_BEFORE = when_used(r"(?:[A-Z_][A-Z_0-9]*=\S+ |\$env:\w+ = \"[^\"]*\"; |mkdir -p \S+ && )+(?=\S)")
#: A text in double quotes, which is left as it is, and a word in single ones.
_QUOTED = when_used(r"(?P<whole>\"[^\"]*\")|(?<=\s)'(?P<word>[^'\"$]*)'(?=\s|$)")
#: pip option -> uv option; empty when uv has no such option.
_UV = {"--no-cache-dir": "--no-cache", "-y": "", "-v": "", "--force-reinstall": "--reinstall"}

#: Where a program for Windows that brings its Python, or makes an environment, has it below its own folder, or
#: where it proposes to put it.
_IN_THE_PROGRAM = {
    "portable": r".\python_embeded\python.exe",
    # ComfyUI's desktop app keeps packages beside models and results, in a folder that it proposes when it is set up.
    "desktop": r'& "$HOME\Documents\ComfyUI\.venv\Scripts\python.exe"',
    "bundled": r".\system\python\python.exe",
    "venv": r".\venv\Scripts\python.exe",
    "dotvenv": r".\.venv\Scripts\python.exe",
    "env": r".\env\Scripts\python.exe",
    "installer_files": r".\installer_files\env\python.exe",
    "beside": r".\python\python.exe",
    "runtime": r".\runtime\python.exe",
    "standalone": r".\python_standalone\python.exe",
}
#: Of them those that other systems have as well, where the folder is another one.
_ELSEWHERE_TOO = frozenset({"desktop", "venv", "dotvenv", "env", "beside", "runtime", "installer_files"})

#: pipx has an environment for each program, and a command that runs pip in it.
_OF_PIPX = when_used(r"[/\\]pipx[/\\]venvs[/\\](?P<app>[\w.-]{1,80})[/\\](?:bin|Scripts)[/\\]")

#: What is installed in an image lasts where the image is made.
_LASTS = {
    "Docker": "as RUN in its Dockerfile: a running container forgets it",
    "Apptainer": "in %post of its definition file, then build the .sif anew",
}
_CHANGES_PACKAGES = when_used(r"(?:-m|uv) pip (?:install|uninstall) ")

#: They reach their packages by commands of their own.
_WITH_WAYS_OF_THEIR_OWN = frozenset({"uv", "poetry", "notebook"})


def formed(commands: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """The commands as a person types them there."""
    installer, windows = _installer(facts), facts.text("node.system") == "Windows"
    found: list[str] = []
    for command in commands:
        if windows:
            command = _with_torchs_index(command, facts)
        found += _on_windows(command, installer) if windows else [_by_installer(command, installer)]
    lasts = _LASTS.get(facts.text("log.container") or "")
    if lasts and installer != "notebook":
        found = [f"{one}  # {lasts}" if _CHANGES_PACKAGES.search(one) else one for one in found]
    return tuple(found)


def pip_there(facts: FactSet) -> str | None:
    """How pip is called in a log's environment, where its own Python has to be named; None where `pip` is enough."""
    called = _by_installer("python -m pip install x", _installer(facts)).removesuffix(" install x")
    return None if called in ("python -m pip", "python -m pip install x") or called.startswith("!") else called


def _installer(facts: FactSet) -> str | None:
    """What installs in the environment, or the path of its interpreter."""
    installer, windows = facts.text("python.environment"), facts.text("node.system") == "Windows"
    if facts.text("python.executable") != "python" or (installer in _ELSEWHERE_TOO and not windows):
        installer = None  # an interpreter that is known is named by its path
    if facts.text("python.executable") == "python" and installer not in _WITH_WAYS_OF_THEIR_OWN:
        named = facts.text("log.python")
        installer = (named.replace("/", "\\") if windows else named) if named else installer
    return installer


def _with_torchs_index(command: str, facts: FactSet) -> str:
    """The request for a torch, which without an index brings the one for CPUs on Windows, with the index for CUDA."""
    asked = _TORCH.search(command) if " -m pip install " in command and not _NAMED.search(command) else None
    if asked is None or facts.text("log.made_for") or facts.text("log.device_wanted") == "cpu":
        return command
    there = facts.text("package.torch.version") or facts.text("torch.version") or ""
    gpu = facts.text("gpu.0.compute_capability")
    if there and asked["wanted"] == f"=={there.partition('+')[0]}":
        return command  # a pin of the torch that is there, which pip leaves alone
    build = index_on_windows(asked["wanted"], installed=there.partition("+")[2], gpus=(gpu,) if gpu else ())
    # torch's own index has torch's companions, and not transformers.
    option = "--extra-index-url" if _OTHERS.search(command.partition(" pip install ")[2]) else "--index-url"
    return f"{command} {option} {index_of(build)}" if build else command


def _on_windows(command: str, installer: str | None) -> list[str]:
    """The command for PowerShell, and before it what it needs.

    Windows PowerShell 5 has no `&&`, and `;` goes on after a failure: `cd x; rm -r y` would remove elsewhere.
    """
    before, parts = list[str](), list[str]()
    for part in command.split(" && "):
        *needed, last = (_by_installer(one, installer) for one in _for_powershell(part))
        before += needed
        parts.append(last)
    whole = parts.pop()
    while parts:
        whole = f"{parts.pop()}; if ($?) {{ {whole} }}"
    return [*before, whole]


def _by_installer(command: str, installer: str | None) -> str:
    first, behind, rest = command.partition("; python -m ")
    if behind:
        return f"{_by_installer(first, installer)}; {_by_installer('python -m ' + rest, installer)}"
    if installer and (set_before := _BEFORE.match(command)):
        formed_rest = _by_installer(command[set_before.end() :], installer)
        mark = "!" if formed_rest.startswith("!") else ""
        return mark + set_before[0] + formed_rest.removeprefix("!")
    if installer == "uv":
        command = command.replace("$(python -c", "$(uv run --no-sync python -c")
        if not (found := _PIP.match(command)):
            return (
                command.replace("python -c", "uv run --no-sync python -c") if command.startswith("python") else command
            )
        words = [_UV.get(word, word) for word in command[found.end() :].split(" ")]
        return " ".join([f"uv pip {found['verb']}", *filter(None, words)])
    if installer == "poetry" and command.startswith("python "):
        return f"poetry run {command}"
    if (made := _OF_PIPX.search(installer or "")) and (found := _PIP.match(command)):
        return f"pipx runpip {made['app']} {found['verb']}{command[found.end() :]}"
    place = _IN_THE_PROGRAM.get(installer or "") or (installer if "/" in (installer or "").replace("\\", "/") else None)
    if place and command.startswith("python "):
        return f"{place} {command.removeprefix('python ')}"
    if installer == "notebook" and (found := _PIP.match(command)):
        return f"!{command}" + ("  # then restart the runtime" if found["verb"] == "install" else "")
    return command


def _for_powershell(command: str) -> list[str]:
    """One or two commands that PowerShell takes."""
    made: list[str] = []
    if asked := _ASKED.search(command):
        made.append(
            f"{asked['python']} -c \"import torch; print('torch==' + torch.__version__.split('+')[0])\" > {_KEPT_IN}"
        )
        command = command.replace(asked[0], f"-c {_KEPT_IN}")
    command = re.sub(r" 2>&1 \| tee (\S+)$", r" > \1 2>&1", command)
    command = re.sub(r" \| grep (?:-\w+ )?(?=\S)", " | Select-String ", command)
    command = re.sub(r"\brm -rf? ", "Remove-Item -Recurse ", command)
    if (found := _SET.match(command)) and found["settings"].strip():
        settings = [
            f'$env:{one["name"]} = "{one["value"].strip(chr(34) + chr(39))}"'
            for one in _SETTING.finditer(found["settings"])
        ]
        command = "; ".join([*settings, *([found["rest"]] if found["rest"] else [])])
    command = _QUOTED.sub(lambda found: found["whole"] or f'"{found["word"]}"', command)
    return [*made, command]
