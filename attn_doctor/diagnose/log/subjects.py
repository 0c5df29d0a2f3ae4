"""Finds the distribution that a message of a log is about.

Evidence, the strongest first: the compiled file in the message, the folder of the failing setup.py, the module that an
import did not find, the package that the message asks for, the source or the folder of builds that it names, the
innermost frame outside packages that merely load or compile others, and names in the message. A compiler's messages are
about the build that failed elsewhere in the log, or that was under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.engines import whose
from attn_doctor.diagnose.log.owners import BUILT_AT_USE, PARTS, compiled_at_use, owner, whole_name
from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.probe.packages.known_packages import BY_NAME, PACKAGES, distribution_of
from attn_doctor.quick_patterns import when_used

_HUB = "hub-kernel"
#: Packages that load, build and compile others, or show what these say: a failure below them belongs to another one.
_CARRIERS = frozenset(
    {
        "torch", "triton", "remote-code", _HUB, "setuptools", "pip", "ninja", "wheel", "functorch", "packaging",
        "psutil", "gradio",
    }
)  # fmt: skip
#: The only ones of these that are a distribution a message can be about.
_OF_THEIR_OWN = ("triton", "torch")

#: Serving engines bring kernels of their own, whose messages are those of the package that they were copied from.
_ENGINES = {
    "vllm": "vllm", "vllm_flash_attn": "vllm", "sglang": "sglang", "sgl_kernel": "sglang", "lmdeploy": "lmdeploy",
    "text_generation_server": "text-generation-server", "tensorrt_llm": "tensorrt-llm",
}  # fmt: skip

#: Packages without a compiled file: what does not load below them is another's.
_PURE = frozenset(
    {
        "transformers", "accelerate", "peft", "trl", "diffusers", "llamafactory", "llmtuner", "axolotl", "lightning",
        "pytorch_lightning", "timm", "x_transformers", "verl", "unsloth", "unsloth_zoo",
    }
)  # fmt: skip
_DOES_NOT_LOAD = when_used(r"undefined symbol|cannot open shared object|DLL load failed|Library not loaded")

_BINARY = when_used(r"(?P<path>[\w./~+:-]{2,400}\.(?:so|pyd))\b")
#: The last line of a message in which an extension names itself, without a folder, and maybe what was called of it.
_PLACE = when_used(r"^\s*Location: (?P<name>[A-Za-z]\w{2,60})(?:[ .:]{1,2}[A-Za-z]\w{0,40}_\w+)?\s*$", re.MULTILINE)
_SOURCE = when_used(r"(?P<path>[\w./\\:~+-]{2,300}\.(?:h|hpp|cuh|cu|cpp|cc))[:( ]{1,2}\d+")
#: The line of a kernel's own source, as Triton's compiler names it.
_KERNEL = when_used(r"\bloc\(\"(?P<path>[^\"\n]{2,300}\.py)\":\d+")
_MODULE = when_used(
    r"No module named '?(?P<module>[\w.]{2,80})'?"
    r"|DLL load failed while importing (?P<dll>\w{2,80})"
    r"|PyTorch and (?P<paired>torch_\w{2,30}) were compiled with different"
    r"|while importing '(?P<tried>[\w-]{3,60})'\. Disabling its usage"
    r"|cannot import name '[\w.]{1,80}' from '(?P<whence>[\w.]{2,80})'"
    r"|(?:[Pp]ackage|[Mm]odule) [`'\"]?(?P<package>[\w-]{3,60})[`'\"]? (?:seems to be not|is not|was not) "
)
#: What a message asks its reader to install, or says is not there.
_WANTED = when_used(
    r"(?:[Ii]nstall(?:ing)?|[Uu]pgrade|[Uu]pdate|requires?|needs?) (?:the |an? )?(?:latest |newer |recent )?"
    r"(?:version of |package )?[`'\"(]{0,2}(?P<asked>[A-Za-z][\w-]{2,40})"
    r"|\bpip3? install (?:-\S+ )*[`'\"]?(?P<typed>[A-Za-z][\w-]{1,60})"
    r"|[`'\"](?P<absent>[A-Za-z][\w-]{2,40})[`'\"] (?:package |library )?(?:is|are|was) not "
    r"(?:installed|found|importable|available)"
)
_PATH = when_used(r"(?P<path>[~\w.-]*(?:/[\w.@+~-]{1,200}){2,30})")
#: Programs of a build, whose exit status a package's builder passes on.
_OF_A_BUILD = when_used(
    r"\bninja\b|\bnvcc\b|\bg\+\+|\bgcc\b|\bcl\.(?:exe|EXE)\b|\b(?:ld|collect2): |fatal error: |extension '"
    r"|build (?:stopped|failed)|compilation (?:terminated|of)|cpp_extension|Cannot open include|[Cc]ompil|CUDA_HOME"
    r"|\bCUTLASS\b|cutlass/"
)
_BUILDER = when_used(r"torch[/\\]utils[/\\](?:cpp_extension|_cpp_extension_versioner|hipify/\w+)\.py$")
_SETUP = when_used(r"(?P<folder>[\w.+@~-]{2,120})[/\\]setup\.py\b")
#: `flash-attn_4a21…` is pip's folder for unpacking flash-attn, `flash_attn-2.8.3` that of an sdist.
_NAMELESS = when_used(r"pip-req-build-|src$|[0-9a-f]{7,40}$")
#: uv unpacks an sdist into a folder src, below the package and its release.
_OF_UV = when_used(r"[/\\]sdists-v\d{1,2}[/\\](?:pypi|index[/\\]\w{1,40})[/\\](?P<package>[\w.-]{2,60})[/\\]")
_UNPACKED = when_used(r"_[0-9a-f]{16,64}$|-\d[\w.+]*$")
_CLASS_BEFORE = when_used(r"(?:[\w.]{1,80}: |\[[^\]\n]{1,40}\]:? |!+ )*")
_CLASS = when_used(r"(?P<module>[a-z_]\w+)\.[\w.]*[A-Z]\w+$")
#: Messages that report a failed build, with its name.
_BUILD = when_used(
    r"[Ff]ailed (?:to build|building (?:wheel|editable) for|to download and build|to prepare distributions? for)[: ]+"
    r"(?:installable wheels for some pyproject\.toml based projects \()?[`'\"]?(?P<failed>[\w.-]{2,60}\w)"
    r"|Running setup\.py (?:develop|install|bdist_wheel) for (?P<running>[\w.-]{2,60}\w)"
    r"|Building wheels? for (?P<wheel>[\w.-]{2,60}) .{0,40}\berror"
    r"|(?:pip-install-|pip-req-build-|sdists-v\d+/)[^\s\"']{1,120}?(?<!third_party)/(?P<unpacked>[\w.+-]{2,80})/(?:setup\.py|csrc|build)\b(?!_)"
    r"|pip-req-build-\w{1,20}/(?P<inner>[a-z]\w{2,40})/"
    r"|[Ee]rror building extension '(?P<jit>\w{2,60})'"
    r"|likely indicates that `(?P<hinted>[\w.-]{2,60}\w)@"
    r"|Guessing wheel URL: \S{1,200}/(?P<guessed>[\w.]{2,60})-\d"
    r"|`(?P<fails>[\w.-]{2,60}\w)` fails to (?:build|install|compile)"
    r"|\berror in (?P<setup>[A-Za-z][\w.-]{1,60}) setup command"
    r"|^(?:Processing|Obtaining file://) ?/\S{0,200}/(?P<checkout>[\w-]{2,60})/?$"
)
#: Lines of a build at first use that is under way.
_AT_USE = when_used(
    r"(?:Loading|Building) extension module (?P<name>\w{2,60})"
    r"|(?P<flashinfer>\bflashinfer[./]jit\b|Loading JIT ops: )"
    r"|(?P<path>\S{0,200}(?:/torch_extensions/|/\.cache/flashinfer/|/\.deep_gemm/|/\.tilelang/|/\.cache/tvm-ffi/)\S{1,100})"
)
_IMPORTED = when_used(r"\s*(?:>>> )?(?:import|from) (?P<module>\w{2,60})")
#: A package's compiled part, which has no name of its own.
_PART = when_used(r"\s*(?:>>> )?from (?P<module>[a-z]\w{2,60})(?:\.\w{1,60}){0,4} import (?:_C|_ext|_cuda|_backend)\b")
_CALLED = when_used(r"\b(?P<module>_C_\w{3,40}|_qattn\w{0,20}|[a-z]\w{2,40}_cuda)\.\w+\(")
_HANDLING = ("import", "pip", "Collecting ", "install", " add ")
#: Messages about the call in the last line of code above them, whoever wrote that line.
_OF_THE_CALL = when_used(
    r"no kernel image|invalid device function|CUDA error: (?:invalid argument|misaligned address|an illegal memory)"
    r"|'NoneType' object is not callable"
)
_INSTALLED = when_used(
    r"(?:\b(?:pip3? (?:install|wheel|download)|(?:poetry|pdm|uv) add) (?:-\S+ )*[\"']?|^\s*Collecting "
    r"|\binstall(?:ing)? (?=[Ff]lash|[Xx]formers))"
    r"(?:git\+https?://github\.com/[\w.-]{2,40}/)?(?P<module>[A-Za-z][\w-]{1,60})"
)
#: What stands behind it in the same command: of several packages the command does not tell which one failed.
_REST = when_used(
    r"(?:[\[=<>~!][^\s;&|]{0,60})?[\"']?(?: (?!(?:and|but|or|fails?|failed|with|in|on|for|to|then|using|gives?|is|from"
    r"|as|into|it|I|when|because|returns?|works?|does|has|error)\b)[^\s;&|#]{1,120}){0,20}"
)
_OTHERS = when_used(r"(?<= )[\"']?([A-Za-z][\w-]{1,60})(?=[\s\[=<>~!\"']|$)")
#: Installed and imported everywhere: no evidence about a message.
_COMMON = frozenset({"torch", "torchvision", "torchaudio", "transformers", "accelerate", "einops", "triton"})
TELLING = (
    "likely indicates that `",
    "ailed to build",
    "ailed building wheel",
    "ailed building editable",
    "rror building extension",
    "Guessing wheel URL",
    "Running setup.py",
)
#: Source folder -> the distribution built from it, where the names differ.
_SOURCES = {folder: package.name for package in reversed(PACKAGES) for folder in package.sources}
#: SDPA's own messages contain names of other libraries' methods.
_TORCH = when_used(
    r"scaled_dot_product|sdp_utils|sdpa_kernel|Torch was not compiled with|torch\.(?:nn\.attention|_inductor)"
)
#: How messages name packages, in steps: the next step counts only where the one before it finds none.
_NAMED = tuple(
    tuple((when_used(spelled, re.ASCII), package.name) for package, every in step for spelled in every)
    for step in (
        [(one, one.of_its_own) for one in PACKAGES],
        [(one, one.in_messages) for one in PACKAGES if not one.around],
        [(one, one.in_messages) for one in PACKAGES if one.around],
        [(one, one.operators) for one in PACKAGES if one.name not in _OF_THEIR_OWN],
        [(one, one.operators) for one in PACKAGES if one.name in _OF_THEIR_OWN],
    )
)


def subject_of(unit: Unit, built_at_use: str | None = None, engine: str | None = None) -> str | None:
    """The distribution that the unit itself is about; None when it does not show it.

    `built_at_use`: the one whose kernels were compiled while the log was written, which is what its builds are about.
    `engine`: the serving engine whose message it is: words that name a kernel of which engines have copies are about
    it, unless they ask for that package.
    """
    message = unit.message
    for found in reversed(list(_BINARY.finditer(message))):
        name = owner(whole_name(found["path"], message))
        if name and name not in _CARRIERS:
            return distribution_of(name)
    frames = [path for path, _ in unit.frames]
    for path in (*reversed(frames), message):
        setup = _SETUP.search(path) if "setup.py" in path else None
        if setup and (of_uv := _OF_UV.search(path)):
            return distribution_of(of_uv["package"].replace("-", "_"))
        if setup and not _NAMELESS.match(setup["folder"]):
            return unpacked(setup["folder"])
    missing = _MODULE.search(message)
    if missing and (name := next(filter(None, missing.groups()))).partition(".")[0] not in _CARRIERS:
        part = PARTS.get(name)
        if part or not name.startswith("_"):  # no distribution is called `_C`
            return distribution_of(part or name.replace("-", "_"))
    for found in _WANTED.finditer(message):
        name = distribution_of(next(filter(None, found.groups())).replace("-", "_"))
        if name in BY_NAME and name not in _COMMON:
            return name
    sources = (*reversed(list(_SOURCE.finditer(message))), *_KERNEL.finditer(message))
    paths = [(found["path"], True) for found in sources] + [(found["path"], False) for found in _PATH.finditer(message)]
    if (place := _PLACE.search(message)) and place["name"] not in _CARRIERS:
        return distribution_of(place["name"])
    for path, is_source in paths:
        name = compiled_at_use(path) or (owner(path) if is_source else "")
        if name == _HUB:
            return "kernels"
        if name and name not in _CARRIERS:
            return distribution_of(name)
    names = [name for path in frames if (name := owner(path))]
    none_of_it = _CARRIERS | _PURE if _DOES_NOT_LOAD.search(message) else _CARRIERS
    own = [name for name in names if name not in none_of_it]
    if own and own[-1] in _ENGINES:
        return _ENGINES[own[-1]]
    first = _CLASS_BEFORE.sub("", message.lstrip())
    speaker = _first_named(first, at_the_start=True)
    if speaker is not None and not _TORCH.search(message):
        return whose(speaker, engine)  # a library's C++ code has no frame of its own
    if own:
        return distribution_of(own[-1])
    if _DOES_NOT_LOAD.search(message) and (module := _imported_by_a_checkout(unit)):
        return distribution_of(module)
    cls = _CLASS.match(unit.exception)
    if cls and cls["module"] not in _CARRIERS and owner(f"{cls['module']}/"):
        return distribution_of(cls["module"])
    if named := named_in(message):
        return whose(named, engine)
    if _OF_THE_CALL.search(message) and (called := named_in(_last_code(unit))):
        return whose(called, engine)
    if built_at_use and _is_of_a_build(unit):
        return built_at_use
    builder = any(_BUILDER.search(path) for path in frames)
    return whose(next((name for name in _OF_THEIR_OWN if name in names and not builder), None), engine)


#: Folders of what an installer unpacked, and of what is compiled at first use.
_UNPACKED_IN = when_used(
    r"(?:site|dist)-packages[/\\](?!\S{1,200}\.egg[/\\])|torch_extensions|[/\\]\.cache[/\\]|^lib|^/usr/lib"
)
_STANDARD = when_used(r"[/\\][Ll]ib[/\\]python3\.\d{1,2}t?[/\\](?!site-packages)|^<")
#: The compiled part of a package, where the file that should hold it is not there.
_PART_MISSING = when_used(r"cannot import name [`'\"]?_C\b")
#: A compiled module by its name, in a line that imports it.
_COMPILED = when_used(
    r"(?:from|import) [\w., ]{0,120}?"
    r"\b(?P<module>[a-zA-Z]\w{1,60}_(?:cuda|ext|cpp|gpu|kernels?)|_(?:C|ext|cuda|backend))\b"
)


def compiled_in_checkout(unit: Unit) -> bool:
    """True where what does not load, or is missing, lies in a checkout, or in its setup.py's egg, and is no known
    package's.
    """
    if _PART_MISSING.search(unit.message):
        frames = [path for path, _ in unit.frames if not _STANDARD.search(path)]
        return bool(frames) and not _UNPACKED_IN.search(frames[-1])
    if not _DOES_NOT_LOAD.search(unit.message):
        return False
    binaries = [found["path"] for found in _BINARY.finditer(unit.message)]
    binaries = [path for path in binaries if "/" in path and not path.rpartition("/")[2].startswith("lib")]
    subject = subject_of(unit)
    if subject is None or subject in BY_NAME:
        return False
    return not _UNPACKED_IN.search(binaries[-1]) if binaries else bool(_imported_by_a_checkout(unit))


def _imported_by_a_checkout(unit: Unit) -> str:
    """The compiled module that the last frame's line imports, or the folder that it is a part of, where this file is no
    installed package's; else empty.
    """
    frames = [path for path, _ in unit.frames if not _STANDARD.search(path)]
    found = _COMPILED.search(_last_code(unit))
    if not frames or found is None or _UNPACKED_IN.search(frames[-1]):
        return ""
    folders = re.split(r"[/\\]", frames[-1])[:-1]
    return found["module"] if not found["module"].startswith("_") else folders[-1] if folders else ""


def _last_code(unit: Unit) -> str:
    """The line of code below the innermost frame; empty where the log has none."""
    code = [line.text.strip() for line in unit.lines[: unit.message_at] if line.text.strip(" ^~")]
    return code[-1] if code and not code[-1].startswith("File ") else ""


def _is_of_a_build(unit: Unit) -> bool:
    return unit.kind is UnitKind.COMPILER or _OF_A_BUILD.search(unit.message) is not None


def built_in(text: str) -> str | None:
    """The distribution whose kernels are compiled at first use, as a line tells: it names an extension or a folder."""
    found = _AT_USE.search(text)
    if found is None:
        return None
    name = found["name"] or ("flashinfer" if found["flashinfer"] else compiled_at_use(found["path"]))
    return distribution_of(BUILT_AT_USE.get(name, name)) if name else None


def named_in(message: str) -> str | None:
    """The distribution named in a message, as people and programs spell it."""
    if _TORCH.search(message):
        return "torch"
    return _first_named(message)


def every_named(text: str) -> set[str]:
    """The distributions that a text names, each by its own name; flash-attn is not meant where flash-attn-3 is."""
    found = [(met.start(), met.end(), name) for step in _NAMED[:3] for one, name in step for met in one.finditer(text)]
    return {
        name
        for start, end, name in found
        if not any(one <= start and end <= last and last - one > end - start for one, last, _ in found)
    }


def _first_named(text: str, *, at_the_start: bool = False) -> str | None:
    """The package that is named first; of those that begin at one place, the longest."""
    for number, step in enumerate(_NAMED):
        found = [
            (met.start(), -len(met[0]), name)
            for pattern, name in step
            if (met := pattern.match(text) if at_the_start and number else pattern.search(text)) is not None
        ]
        if found:
            return min(found)[2]
    return None


def handled_in(text: str) -> Iterator[str]:
    """Known packages that a line imports, installs, or calls the compiled module of: a message may be about them."""
    of_import = any(map(text.__contains__, _HANDLING))
    imported = _IMPORTED.match(text) if of_import else None
    asked = _INSTALLED.search(text) if of_import and imported is None else None
    modules = [found["module"] for found in (imported, asked) if found]
    if asked and (rest := _REST.match(text, asked.end())):
        modules += _OTHERS.findall(rest[0])
    for module in modules:
        name = ("github.com/" in text and _SOURCES.get(module)) or distribution_of(module.replace("-", "_"))
        if name in BY_NAME and name not in _COMMON:
            yield name
    part = _PART.match(text) if "import _" in text else None
    if part and part["module"] not in _CARRIERS:
        yield distribution_of(part["module"])
    called = _CALLED.search(text) if "_C_" in text or "_cuda" in text or "_qattn" in text else None
    if called:
        yield distribution_of(PARTS.get(called["module"], called["module"]))


def builds_in(text: str) -> Iterator[str]:
    """Distributions whose build failed according to a line."""
    for found in _BUILD.finditer(text):
        if found["jit"]:
            yield distribution_of(BUILT_AT_USE.get(found["jit"], found["jit"]))
        elif found["inner"]:  # a checkout's folder has no name; that of its package may be known
            if (name := distribution_of(found["inner"])) in BY_NAME and name not in _COMMON:
                yield name
        else:
            folder = next(filter(None, found.groups()))
            of_uv = _OF_UV.search(text) if found["unpacked"] else None
            if of_uv or not _NAMELESS.match(folder):
                yield unpacked(of_uv["package"] if of_uv else folder)


def unpacked(folder: str) -> str:
    """The distribution that is built in a folder of this name."""
    name = _UNPACKED.sub("", folder)
    return _SOURCES.get(name) or distribution_of(name.replace("-", "_"))
