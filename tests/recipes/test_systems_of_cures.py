"""A remedy that names what one system alone has is offered on that system alone, or says whose it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

import pytest

from attn_doctor.model.facts import FactName
from attn_doctor.model.remedies import Advise
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import AnyOf, Condition, Matches, OneOf, Present, Recipe, RecipeRemedy
from tests.recipes.remedies import REMEDIES, commands, faults, named, texts

LINUX, MACOS, WINDOWS = "Linux", "macOS", "Windows"
SYSTEMS = (LINUX, MACOS, WINDOWS)
#: What stands in a text or a command -> the systems that have it.
HAVE = {
    r"\bapt(?:-get)? (?:install|update|-)|\bapt-get\b|\bdnf (?:install|config)|\bpacman -|\bapk add\b"
    r"|\byum install|\bzypper\b|\bdpkg\b|\blib(?!raries)\w+-dev\b|\bldconfig\b|\bsystemctl\b|\bmodprobe\b"
    r"|\bnvidia-modprobe\b|\bupdate-alternatives\b|\bdmesg\b|\bLD_\w+|/proc/|/dev/(?:shm|dri|kfd|nvidia|davinci)"
    r"|/etc/(?:ld|docker|apt|yum|default|modprobe|security|systemd|vulkan|nv_)|/usr/local/cuda"
    r"|/usr/lib/\w+-linux": (LINUX,),
    r"\bsudo\b|(?<!whl)/usr/|(?:^|[\s`(:])export [A-Z]|\bchmod\b|\bchown\b|\bulimit\b|\bln -s\b|\bbashrc\b"
    r"|/etc/|\$HOME\b": (LINUX, MACOS),
    r"\.bat\b|\bPowerShell\b|\bVisual Studio\b|\bVisual C\+\+|\bMSVC\b|\bvcvars\w*|\$env:|\bregedit\b|\bwinget\b"
    r"|\bsetx \w|\b[A-Z]:[\\/]{1,2}(?:Program Files|Windows|Users)\b"
    r"|\bx64 Native\b|\bNVIDIA Control Panel\b|\bTask Manager\b|\bDevice Manager\b": (WINDOWS,),
    r"\bHomebrew\b|\bbrew (?:install|update|upgrade)|\bxcode-select\b|\bXcode\b|\bDYLD_\w+": (MACOS,),
}
#: How a text says whose it is.
SAYS = {
    LINUX: r"\bLinux\b|_linux\b|\bDebian\b|\bUbuntu\b|\bFedora\b|\bRed Hat\b|\bWSL\b|\bJetson\b|\bJetPack\b"
    r"|\b[Cc]ontainers?\b|\bimages?\b|\bdocker\b|\bDocker\w*\b|\b[Cc]luster\b|\bkubectl\b",
    MACOS: r"\bmacOS\b|\b_macos\b|\bMacs?\b|\bApple\b",
    WINDOWS: r"\bWindows\b|_windows\b|\bwin_amd64\b",
}
#: A variable of a plain value, which is set as the reader's shell does it.
_TURNED_OVER = re.compile(r"(?:^|(?<=; ))export(?= [A-Z_0-9]+=[^$:/;]*(?:$|;))", re.MULTILINE)
#: Devices whose drivers are for Linux alone.
OF_ANY = ("NVIDIA", "AMD", "Intel", "Apple", "DirectML", "ZLUDA")
OF_LINUX_ALONE = ("Ascend", "Gaudi", "Neuron", "Moore Threads", "TPU")
#: The messages that these explain are of a program that one system alone has, so that no other system meets them.
THE_MESSAGE_IS_OF_ONE_SYSTEM = MappingProxyType({"python-under-sudo": "what sudo started says it"})
_SYSTEM, _BOARD, _DEVICE = map(FactName.parse, ("node.system", "log.board", "log.device"))


def holds(condition: Condition, fact: FactName, value: str) -> bool | None:
    """Whether it holds where the fact has this value; None where it asks something else."""
    if isinstance(condition, AnyOf):
        answers = [holds(one, fact, value) for one in condition.questions]
        return None if None in answers else any(answers)
    if condition.fact != fact:
        return None
    if isinstance(condition, OneOf):
        return value in condition.values
    if isinstance(condition, Matches):
        return re.search(condition.pattern, value) is not None
    return condition.present if isinstance(condition, Present) else None


def leaves(recipe: Recipe, remedy: RecipeRemedy, fact: FactName, value: str) -> bool:
    """Whether it can be offered where the fact has this value."""
    return not any(holds(one, fact, value) is False for one in remedy.when) and not any(
        holds(one, fact, value) for one in (*remedy.unless, *recipe.unless)
    )


def offered_on(recipe: Recipe, remedy: RecipeRemedy) -> set[str]:
    """The systems on which its conditions leave it possible."""
    if any(holds(one, _BOARD, "") is False for one in remedy.when):
        return {LINUX}
    devices = [
        one for one in ("NVIDIA", "AMD", "Intel", "Apple", *OF_LINUX_ALONE) if leaves(recipe, remedy, _DEVICE, one)
    ]
    if devices and set(devices) <= set(OF_LINUX_ALONE):
        return {LINUX}
    return {system for system in SYSTEMS if leaves(recipe, remedy, _SYSTEM, system)}


def elsewhere(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """What it names that a system does not have on which it is offered."""
    # What needs no log is judged on a node, and nodes that are examined are Linux.
    if not recipe.logs or recipe.id in THE_MESSAGE_IS_OF_ONE_SYSTEM:
        return []
    return list(dict.fromkeys(_not_there(remedy, offered_on(recipe, remedy))))


def _not_there(remedy: RecipeRemedy, offered: set[str]) -> Iterator[str]:
    said = list(texts(remedy))
    whole = "\n".join(said)
    typed = [_TURNED_OVER.sub("", command) for command in commands(remedy)]
    for words, systems in HAVE.items():
        if offered <= set(systems) or any(re.search(SAYS[system], whole) for system in systems):
            continue
        for text in (*said, *typed):
            yield from (found[0].strip() for found in re.finditer(words, text, re.MULTILINE))


def test_what_one_system_has_is_not_offered_on_another() -> None:
    """Add a condition on node.system, or say in the text whose it is."""
    assert faults(elsewhere) == []


def test_each_exception_is_needed() -> None:
    """One that no law is against any more goes out."""
    without = [one for one in THE_MESSAGE_IS_OF_ONE_SYSTEM if not _against(one)]

    assert without == []


def _against(recipe_id: str) -> bool:
    return any(list(_not_there(one, offered_on(recipe, one))) for recipe, one in REMEDIES if recipe.id == recipe_id)


PLANTED = {
    "sudo apt install ffmpeg": (LINUX, ["apt install", "sudo"]),
    "Put the folder first on LD_LIBRARY_PATH": (LINUX, ["LD_LIBRARY_PATH"]),
    "CUDA_HOME=/usr/local/cuda": (LINUX, ["/usr/local/cuda", "/usr/"]),
    "Before the start: export TORCH_HOME=here": (LINUX, ["export T"]),
    "dnf install gcc-c++": (LINUX, ["dnf install"]),
    "Do it: apt install ffmpeg": (LINUX, ["apt install"]),
    "pacman -S ffmpeg": (LINUX, ["pacman -"]),
    "apk add ffmpeg": (LINUX, ["apk add"]),
    "setx MAX_JOBS 2": (WINDOWS, ["setx M"]),
    "Below C:\\Program Files\\NVIDIA": (WINDOWS, ["C:\\Program Files"]),
    "Write it into webui-user.bat": (WINDOWS, [".bat"]),
    "In PowerShell: $env:MAX_JOBS=2": (WINDOWS, ["PowerShell", "$env:"]),
    "Install Visual Studio": (WINDOWS, ["Visual Studio"]),
    "Take it from Homebrew": (MACOS, ["Homebrew"]),
}


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("where", ["title", "text", "why"])
def test_a_text_of_one_system_is_seen(text: str, where: str) -> None:
    """In a remedy without conditions. A condition or the system's name clears it, and those of another do not."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    system, seen = PLANTED[text]
    other = LINUX if system == WINDOWS else WINDOWS

    def says(words: str) -> RecipeRemedy:
        bare = replace(remedy, when=(), unless=(), actions=(), title="Install it")
        changed = {
            "title": {"title": words},
            "text": {"actions": (Advise(text=words),)},
            "why": {"why_this_safety": words},
        }
        return replace(bare, **changed[where])

    assert elsewhere(recipe, says(text)) == seen
    assert elsewhere(recipe, says(f"On {system}: {text}")) == []
    assert elsewhere(recipe, replace(says(text), when=(OneOf(fact=_SYSTEM, values=(system,)),))) == []
    assert elsewhere(recipe, replace(says(text), when=(OneOf(fact=_SYSTEM, values=(other,)),))) == seen
    others = "|".join(one for one in SYSTEMS if one != system)
    assert elsewhere(recipe, replace(says(text), unless=(Matches(fact=_SYSTEM, pattern=others),))) == []
    assert elsewhere(recipe, replace(says(text), unless=(Matches(fact=_SYSTEM, pattern=system),))) == seen


def test_a_command_of_one_system_is_seen() -> None:
    """A plain variable is turned over for the reader's shell, a path of Linux is not."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")

    def runs(command: str) -> list[str]:
        action = Advise(text="", commands=(command,))
        return elsewhere(recipe, replace(remedy, when=(), unless=(), title="Build it", actions=(action,)))

    assert runs("sudo ldconfig") == ["ldconfig", "sudo"]
    assert runs("export PATH=/opt/bin:$PATH") == ["export P"]
    assert runs("export MAX_JOBS=2") == []
