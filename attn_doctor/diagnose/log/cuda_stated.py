"""What a log states of CUDA, its compiler and the driver, in the words of drivers, installers, builds and people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attn_doctor.diagnose.log.hearsay import is_denied
from attn_doctor.quick_patterns import when_used

_CUDA = r"(?P<value>\d{1,2}\.\d{1,2})(?![\d])"
_BY_TORCH = (
    r"(?:used to (?:compile|build) (?:PyTorch|torch)|torch was compiled with|PyTorch has"
    r"|^\W{0,12}(?:print\()?torch\.version\.cuda\)?(?! ?[=!]=)|^\W{0,6}pytorch-cuda(?=[ =])"
    r"|Pytorch binaries were compiled with [Cc]uda)"
)
#: `CUDA 12.1`, `cuda: 11.8`, as people state what they have.
CUDA_STATED = when_used(
    r"\b(?:CUDA|[Cc]uda)(?:[ _](?:[Vv]ersion|toolkit))?(?: ?[:=]{1,2} ?| )?v?(?P<value>(?:9|1\d)\.\d{1,2})\b"
)
_FOLDER = r"[^\s'\":]{1,200}"
#: Statements about installed versions, and the toolkit's folder.
STATED = tuple(
    (sign, name, when_used(pattern))
    for sign, name, pattern in (
        ("river ", "driver.version", r"[Dd]river [Vv]ersion:? ?(?P<value>\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b"),
        ("Driver Version", "driver.cuda", rf"Driver Version: ?[\d.]{{1,12}}.{{0,20}}CUDA Version: ?{_CUDA}"),
        ("orch", "torch.cuda", rf"{_BY_TORCH} ?(?:CUDA[ _]Version)? ?[=:(]{{0,2}} ?['\"]?{_CUDA}"),
        # CUDA_HOME as a list of folders, which makes a folder of headers and a path of nvcc that do not exist.
        (
            ":/",
            "log.cuda_home_meant",
            (
                rf"(?:-I|(?<=['\" ]))(?=:/|/{_FOLDER}:/)"
                rf":?(?P<value>/{_FOLDER}?)(?::(?:/\S{{0,200}}?)?)?/(?:include\b|bin/nvcc)"
            ),
        ),
        (" ", "cuda.nvcc", rf"(?:(?:detected|Installed) CUDA version \(?|, release (?=[\d.]{{3,5}}, V\d)){_CUDA}"),
    )
)
#: torch's own message: the CUDA release that the driver supports, in the encoding of cudaDriverGetVersion.
DRIVER_SPEAKS = when_used(r"\(found version (?P<number>\d{4,6})\)")
#: The folder of a build's nvcc, and that of the extensions that torch compiles, whose name has torch's CUDA.
_NVCC_FOLDER = when_used(r"[/\\](?:CUDA[/\\]v|cuda-)(?P<nvcc>\d{1,2}\.\d{1,2})[/\\]bin[/\\]nvcc\b")
_NVCC_OF_THE_SYSTEM = when_used(r"(?:^|[\s'\"])(?P<nvcc>/usr/bin/nvcc)(?=\s|$)")
_EXTENSIONS = when_used(
    r"torch_extensions[/\\](?:\S{1,60}[/\\])?py3(?P<python>\d{1,2})_cu(?P<major>1\d)(?P<minor>\d)\b"
)
#: Where torch was installed from; in an advice it is what somebody else would take.
_TORCH_FROM = when_used(r"(?i)torch\b[^\n]{0,200}/whl/(?:(?:nightly|test)/)?cu(?P<major>1\d)(?P<minor>\d)\b")
#: A build of torch that its writer says is there, by the index's name: `I installed the cu128 nightly of torch`.
_TORCH_OF = when_used(
    r"(?:\b(?:I|[Ww]e)(?:['’](?:ve|m)| have| had| am| are)?(?: also| already| just| even| now)*"
    r" (?:tried|(?:re)?installed|use[ds]?|using|on|running|have|upgraded|updated|switched)\b|\b[Tt]ried\b"
    r"|\b[Aa]lready (?:tried|(?:re)?installed|use[ds]?|using|on|running|have|upgraded|updated|switched|with|at)\b"
    r"|已经?|安装了|用的)[^\n.;]{0,60}?"
    r"(?:(?<![A-Za-z0-9])(?:[Pp]y)?[Tt]orch\b[^\n,;]{0,40}?(?<![A-Za-z0-9/])cu(?P<behind>1[0-3]\d)(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9/])cu(?P<before>1[0-3]\d)(?![A-Za-z0-9])[^\n,;]{0,40}?(?<![A-Za-z0-9])(?:[Pp]y)?[Tt]orch\b)"
)
#: Of several builds that a sentence names, the one that was taken.
_TO_A_BUILD = when_used(r"\bto (?:[\w.+-]{1,20} ){0,3}?(?:torch[\w.]{0,12}\+)?cu(?P<build>1[0-3]\d)\b")
_BUILDS = when_used(r"(?<![A-Za-z0-9/])cu(1[0-3]\d)\b")
_SENTENCE_END = when_used(r"[.!?](?=\s|$)")
_ADVICE = when_used(r"(?i)\b(?:please|try|should|could|can|may|need to|must|recommend\w*|instead|e\.g\.)\b")
#: The library that bitsandbytes loads, by its CUDA; and what only its releases before 0.43 print, and have as a folder.
_LIBRARY = when_used(r"Loading binary \S.{0,300}?libbitsandbytes_cuda(?P<major>1\d)(?P<minor>\d)\w{0,20}\.(?:dll|so)\b")
_OLD_BITSANDBYTES = when_used(r"\bCUDA[_ ]SETUP: |bitsandbytes[/\\]cuda_setup[/\\]")
OF_ANOTHER = "log.nvcc_of_another_cuda"


def in_paths(text: str) -> Iterator[tuple[str, str]]:
    """Facts that paths tell: a build's nvcc, the CUDA and Python that torch compiles extensions for, the index that
    torch was installed from, the library that bitsandbytes chose and how old it is; and the build of torch that its
    writer says is there.
    """
    if "/whl/" in text and (index := _TORCH_FROM.search(text)) and not _ADVICE.search(text):
        yield "torch.cuda", f"{index['major']}.{index['minor']}"
    if build := torch_said(text):
        yield "torch.cuda", f"{build[:2]}.{build[2:]}"
    if "nvcc" in text and "--version" not in text:
        if folder := _NVCC_FOLDER.search(text):
            yield "cuda.nvcc", folder["nvcc"]
        elif own := _NVCC_OF_THE_SYSTEM.search(text):
            yield "cuda.nvcc_path", own["nvcc"]
    if "CUDA" in text or "cuda_setup" in text:
        yield from _of_bitsandbytes(text)
    if "torch_ext" in text and (built := _EXTENSIONS.search(text)):
        yield "torch.cuda", f"{built['major']}.{built['minor']}"
        yield "python.version", f"3.{built['python']}"


def torch_said(text: str) -> str | None:
    """The CUDA of a torch that a line's writer says is there, in digits: 128."""
    if "cu1" not in text or "orch" not in text or (found := _TORCH_OF.search(text)) is None or _ADVICE.search(text):
        return None
    if _is_denied_or_asked(text, found):
        return None
    if len(set(_BUILDS.findall(text))) > 1:
        taken = _TO_A_BUILD.search(text)
        return taken and taken["build"]
    return found["behind"] or found["before"]


def _is_denied_or_asked(text: str, found: re.Match[str]) -> bool:
    """The denial stands before what was found or, as in `I have torch without cu128`, within it."""
    end = _SENTENCE_END.search(text, found.end())
    return is_denied(text, found.start()) or is_denied(found[0], len(found[0])) or (end is not None and end[0] == "?")


def _of_bitsandbytes(text: str) -> Iterator[tuple[str, str]]:
    if _OLD_BITSANDBYTES.search(text):
        yield "log.bitsandbytes_before", "0.43"
    if chosen := _LIBRARY.search(text):
        yield "log.bitsandbytes_cuda", f"{chosen['major']}.{chosen['minor']}"


def another_cuda(told: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The release of the nvcc where it is older than torch's CUDA or of another major, with its line; of each one alone
    is told. A newer minor release mostly does.
    """
    nvcc, torch = told.get("cuda.nvcc", {}), told.get("torch.cuda", {})
    if len(nvcc) != 1 or len(torch) != 1:
        return {}
    ran, meant = (tuple(map(int, next(iter(one)).split(".")[:2])) for one in (nvcc, torch))
    return dict(nvcc) if ran < meant or ran[0] != meant[0] else {}
