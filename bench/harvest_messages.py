"""Which messages of the libraries' own sources does no recipe know? Read from wheels and sdists, not from reports.

    python bench/harvest_messages.py fetch DIR [--newest N] [PACKAGE ...]   one release a minor, the newest N of each
    python bench/harvest_messages.py read DIR NAME=FOLDER ...               sources that are there, such as a checkout
    python bench/harvest_messages.py list DIR [--every N | --without N]     what no pattern catches

`fetch` asks pip, as it is configured here, for sdists where a package has small ones and else for wheels (of torch for
a Mac's, which hold the same Python and no CUDA), takes the messages out and deletes the archive; what was read before
is not fetched again. A message is what a raise, an assert, a warning, a logged warning or error, a `torch._check` or a
check of C++ (TORCH_CHECK and its like) would print, if it speaks of attention, dtypes, devices, builds or imports; of
a .so what reads as the beginning of one. `list` gives each one to `explain`, with something plausible in each
slot, on an empty set of facts. `--every 20` lists only each 20th message, caught or not, with what answers it, and
`--without 20` leaves those out: to put a sample aside before patterns are written, and to look at it afterwards.

DIR belongs outside of this project: the texts are the libraries' own.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from attn_doctor.diagnose.log.causes import explain
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.released_sources import fetch, in_folder, last_of_each

#: Distribution -> what is taken of it. Where sdists are too large or missing, wheels; neither: `read` a checkout.
PACKAGES = {
    "flash-attn": "sdist", "flash-attn-4": "wheel", "xformers": "sdist", "fla-core": "wheel",
    "flash-linear-attention": "wheel",
    "transformers": "wheel", "accelerate": "wheel", "vllm": "sdist", "sglang": "wheel", "flashinfer-python": "sdist",
    "transformer-engine-torch": "sdist", "deepspeed": "sdist", "mamba-ssm": "sdist", "causal-conv1d": "sdist",
    "sageattention": "sdist", "diffusers": "wheel", "peft": "wheel", "trl": "wheel", "axolotl": "sdist",
    "unsloth": "wheel", "unsloth-zoo": "wheel", "llamafactory": "wheel", "x-transformers": "wheel", "kernels": "wheel",
    "lightning": "wheel", "ms-swift": "wheel", "torchao": "wheel", "liger-kernel": "wheel", "lmdeploy": "wheel",
    "natten": "sdist",
    "megatron-core": "sdist", "torch": "mac", "triton": "wheel", "bitsandbytes": "wheel",
}  # fmt: skip
#: Bytes of a file that is fetched.
LARGEST = 50_000_000
#: Of these there is no sdist, and no wheel that is so small: torch's smallest is that of the Mac.
LARGER = {"torch": 400_000_000, "triton": 400_000_000, "bitsandbytes": 150_000_000, "lmdeploy": 150_000_000}

_SOURCES = (".py", ".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp", ".pyi", ".so")
_SUBJECT = re.compile(
    r"attention|\battn|flash|sdpa|xformers|\bflex|head.?(?:dim|size)|kv.?cache|attn.?mask|attention.?mask|rotary"
    r"|dtype|bfloat16|\bbf16|float16|\bfp16|\bhalf\b|float32|\bfp32|\bfp8|e4m3|autocast|precision|GradScaler"
    r"|\bCUDA|\bcuda|\bGPU|compute.capability|\bsm_?\d|ROCm|\bHIP\b|\bdriver|nvcc|[Tt]riton|Ampere|Hopper|Turing"
    r"|not (?:be )?(?:installed|importable|compiled|built)|No module|cannot import|could not import"
    r"|pip install|reinstall"
    r"|shared object|extension|ninja|cutlass|CUTLASS|cuDNN|cudnn|libcu|NVRTC|nvrtc"
)
#: Packages that are all our subject, and what else is of torch.
_ALSO = {
    "torch": re.compile(
        r"FSDP|\bdevices?\b|torch\.compile|[Ii]nductor|[Dd]ynamo|\bkernels?\b|[Bb]ackends?\b|pin(?:ned)? memory|NCCL"
        r"|\bHalf\b|\bBFloat16\b|mat1|scaled_mm|(?:un)?scale|checkpoint|[Ff]ake [Tt]ensor|graph break|PrivateUse1"
    ),
    "triton": re.compile(""),
    "bitsandbytes": re.compile(""),
}
_NOT_OURS = re.compile(
    r"(?:^|/)(?:tests?|testing|docs?|examples?|benchmarks?|third_party|3rdparty|_vendor|gluon|cupti[\w-]*)/"
    r"|(?:^|/)(?:test_|conftest)"
)
_LOGGED = {"warning", "warning_once", "warn", "warn_once", "error", "error_once", "critical", "exception", "rank0_warn"}
_CHECKS = re.compile(
    r"\b(?P<macro>TORCH_CHECK\w*|AT_ASSERTM?|AT_ERROR|TORCH_WARN\w*|NVTE_CHECK\w*|NVTE_ERROR|FLASHINFER_\w+|"
    r"TVM_FFI_ICHECK\w*|XFORMERS_CHECK|ASSERT_CHECK|STD_TORCH_CHECK|throw std::\w+)\s*\("
)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
#: What torch's own checks in Python raise; the text comes after the condition, and is mostly a lambda's.
_CHECKED = {
    "_check": "RuntimeError", "_check_with": "RuntimeError", "check": "RuntimeError", "_check_value": "ValueError",
    "_check_type": "TypeError", "_check_index": "IndexError", "_check_not_implemented": "NotImplementedError",
}  # fmt: skip
_PRINTABLE = re.compile(rb"(?<![\t\n\x20-\x7e])[\t\n\x20-\x7e]{24,600}(?=\0)")
#: Of what is printable: sentences that refuse something, and neither code, signatures, help nor torch's own asserts.
_REFUSES = re.compile(
    r"\b(?:must|should|expected|[Ee]xpects|cannot|can't|[Cc]ould not|[Uu]nable|[Ff]ailed|[Ii]nvalid|[Uu]nsupported|"
    r"[Rr]equires?|only|mismatch|deprecated|(?:do(?:es)?|is|are|was|has|have)(?: not|n't)|not \w+ed|Expected|No)\b"
)
_CODE = re.compile(
    r"INTERNAL ASSERT|message be improved|failed to parse|&&|[;{}]|->|::\w|#include|^\W|^\w+\("
    r"|^(?:\S+\s+){,2}\S+$|\n[\s\S]*\n[\s\S]*\n"
)
_DEFAULTS = (
    (r"version", "2.1.0"), (r"dtype|type\(", "torch.float32"), (r"capab|arch\b|\bsm\b|major", "7.5"),
    (r"device", "cuda:0"), (r"class|name|cls|model", "LlamaForCausalLM"),
    (r"dim|size|len|num|shape|head|stride", "192"), (r"package|module|lib", "flash_attn"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """What a place in a source would print; slots are spelled `{expression}`."""

    package: str
    version: str
    place: str
    kind: str
    text: str

    def filled(self) -> str:
        """As a log would have it."""
        text = re.sub(r"\{([^{}]*)\}", lambda slot: _value(slot[1]), self.text)
        text = re.sub(r"%(?:\(\w+\))?[-\d.]*[sdrif]", "192", text)
        return f"{self.kind}: {text}" if self.kind[0].isupper() else f"{self.kind} {text}"


def _value(expression: str) -> str:
    return next((value for about, value in _DEFAULTS if re.search(about, expression, re.IGNORECASE)), "foo")


def of_python(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, exception or level, and text of each message."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    named: dict[str, list[tuple[int, str]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = _text(node.value, {})
            if text and " " in text:
                named.setdefault(node.targets[0].id, []).append((node.lineno, text))
    for node in ast.walk(tree):
        kind, shown = _says(node)
        if not shown:
            continue
        line = shown[0].lineno
        before = {name: [one for one in texts if one[0] <= line] for name, texts in named.items()}
        known = {name: texts[-1][1] for name, texts in before.items() if texts}
        text = next(filter(None, (_text(one, known) for one in shown)), "")
        if text:
            yield line, kind, text


def _says(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """The exception or level, and the arguments of which the first string is the text."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return ast.unparse(node.exc.func).rpartition(".")[2], node.exc.args[:3]  # Triton's are given the source first
    if isinstance(node, ast.Assert) and node.msg is not None:
        return "AssertionError", [node.msg]
    if not isinstance(node, ast.Call) or not node.args:
        return "", []
    called = ast.unparse(node.func)
    name = called.rpartition(".")[2]
    if called in ("warnings.warn", "warn"):
        return "UserWarning", node.args[:1]
    if name in _LOGGED and "." in called:
        return "WARNING", node.args[:1]
    if name in _CHECKED:
        return _CHECKED[name], [one.body if isinstance(one, ast.Lambda) else one for one in node.args[1:3]]
    return ("reason", node.args[:1]) if "reasons.append" in called else ("", [])


def _text(node: ast.expr, named: dict[str, str]) -> str:
    """The string that an expression comes to, with `{…}` for what only a run tells; empty where it is no string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Name):
        return named.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value)
            if isinstance(part, ast.Constant)
            else "{" + re.sub(r"[{}\n]", "", ast.unparse(part)).strip("f'\"") + "}"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, named), _text(node.right, named)
        return (left or "{x}") + (right or "{x}") if left or right else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _text(node.left, named)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("format", "strip", "dedent")
    ):
        return _text(node.func.value, named)
    return ""


def of_cxx(source: str) -> Iterator[tuple[int, str, str]]:
    """The same of C++ and CUDA, from the arguments of checks and throws."""
    for found in _CHECKS.finditer(source):
        arguments = _arguments(source, found.end())
        macro = found["macro"]
        if macro.startswith(
            ("TORCH_CHECK", "NVTE_CHECK", "AT_ASSERT", "STD_TORCH", "TVM", "FLASHINFER_CHECK", "XFORMERS", "ASSERT")
        ):
            arguments = arguments[1:]
        text = "".join(
            "".join(_STRING.findall(part)) if '"' in part else "{" + part.strip()[:40] + "}" for part in arguments
        )
        text = text.replace('\\"', '"').replace("\\n", " ")
        if re.search(r"[a-z]{3}", re.sub(r"\{.*?\}", "", text)):
            yield source.count("\n", 0, found.start()) + 1, "UserWarning" if "WARN" in macro else "RuntimeError", text
    for found in re.finditer(r"^\s*#\s*error\s+(.+)$", source, re.MULTILINE):
        yield source.count("\n", 0, found.start()) + 1, "file.h:12: error: #error", found[1]


def _arguments(source: str, start: int) -> list[str]:
    """What stands between the commas of a call's parentheses."""
    parts: list[str] = []
    depth, quoted, begin = 1, False, start
    for at in range(start, min(len(source), start + 3000)):
        character = source[at]
        if character == '"' and source[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if not depth:
                return [*parts, source[begin:at]]
        elif character == "," and depth == 1:
            parts.append(source[begin:at])
            begin = at + 1
    return []


def of_binary(content: bytes) -> Iterator[tuple[int, str, str]]:
    """Where in a library it stands, and the text; a value follows one that is cut off before it."""
    for found in _PRINTABLE.finditer(content):
        text = found[0].decode().rstrip("\n")
        if _REFUSES.search(text) and not _CODE.search(text):
            cut = re.search(r"(\w*)[\W]*[ :'\"(\[=]$", text)
            yield found.start(), "RuntimeError", f"{text}{{{cut[1]}}}" if cut else text


def read(package: str, version: str, files: Iterator[tuple[str, bytes]]) -> Iterator[Message]:
    """The messages of a source tree that speak of our subjects, each text once."""
    seen: set[str] = set()
    for name, content in files:
        if not name.endswith(_SOURCES) or _NOT_OURS.search(name):
            continue
        if name.endswith(".so"):
            of_file = of_binary(content)
        else:
            source = content.decode(errors="replace")
            of_file = of_python(source) if name.endswith((".py", ".pyi")) else of_cxx(source)
        for line, kind, text in of_file:
            flat = " ".join(text.split())[:400]
            also = _ALSO.get(package) if name.endswith((".py", ".pyi")) else None
            ours = _SUBJECT.search(flat) or (also and also.search(flat))
            if len(flat) > 12 and ours and flat not in seen:
                seen.add(flat)
                yield Message(package, version, f"{name}:{line}", kind, flat)


def minors(package: str, newest: int) -> list[str]:
    """The last release of each of the newest minors."""
    every = last_of_each(
        package,
        lambda version: version.release[: 3 if version.release[:2] == (0, 0) else 2],
        prereleases=package == "flash-attn-4",  # it has no other releases yet
    )
    return every[:newest]


def keep(folder: Path, package: str, version: str, messages: Iterator[Message]) -> None:
    """Writes them beside those of the other releases."""
    found = [json.dumps(asdict(one)) for one in messages]
    (folder / f"{package}-{version}.jsonl").write_text("".join(f"{one}\n" for one in found))
    print(f"{package} {version}: {len(found)} messages", flush=True)


def every(folder: Path) -> list[Message]:
    """All messages, each text of a package once (as its newest release has it), in a lasting order."""
    found: dict[tuple[str, str], Message] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            one = Message(**json.loads(line))
            found.setdefault((one.package, re.sub(r"\{[^{}]*\}", "{}", one.text)), one)
    return [found[key] for key in sorted(found)]


@cache
def _scanner() -> Scanner:
    return Scanner(Patterns((*bundled(), *families())))


@cache
def _last_resort() -> str:
    """The family that says of any exception that it is not known: the last by its rank."""
    return max(families(), key=lambda one: one.rank).id


def answers(text: str) -> list[str]:
    """The findings that `explain` gives to a text, where nothing else is known; without the last resort."""
    found = explain([_scanner().scan("the text", [text])], FactSet()).diagnosis.findings
    return [f"{one.id} (family)" if one.family else one.id for one in found if one.id != _last_resort()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fetch", "read", "list"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--newest", type=int, default=3)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--without", type=int, default=0)
    asked = parser.parse_intermixed_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "fetch":
        for package in asked.names or PACKAGES:
            for version in minors(package, asked.newest):
                if not (asked.folder / f"{package}-{version}.jsonl").exists():
                    with tempfile.TemporaryDirectory(prefix="harvest-", dir=asked.folder) as scratch:
                        most = LARGER.get(package, LARGEST)
                        files = fetch(package, version, Path(scratch), PACKAGES[package], _SOURCES, most)
                        keep(asked.folder, package, version, read(package, version, files))
    elif asked.what == "read":
        for named in asked.names:
            package, _, place = named.partition("=")
            keep(asked.folder, package, "tree", read(package, "tree", in_folder(Path(place), _SOURCES)))
    else:
        known = looked_at = 0
        messages = every(asked.folder)
        for number, one in enumerate(messages):
            if (asked.every and number % asked.every) or (asked.without and number % asked.without == 0):
                continue
            if asked.names and one.package not in asked.names:
                continue
            caught = answers(one.filled())
            looked_at += 1
            known += bool(caught)
            if asked.every or not caught:
                print(
                    f"{one.package} {one.version} {one.place}\n    {one.filled()}\n"
                    f"    -> {', '.join(caught) or 'nothing'}"
                )
        print(f"{known} of {looked_at} are caught", file=sys.stderr)


if __name__ == "__main__":
    main()
