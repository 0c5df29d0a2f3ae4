"""requirements.txt, environment.yml and Dockerfiles."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.stack.locks.pins import LockRead, Pin, cuda_of_index, environment_of, merged, pin_of

_MOST_BYTES = 4_000_000
_MOST_FILES = 30
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links|--index|--default-index)[= ]+(\S+)")
#: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel, and hiyouga/pytorch:th2.6.0-cu124-… of LLaMA-Factory
_PYTORCH_IMAGE = re.compile(r"/pytorch:(?:th)?(\d+\.\d+\.\d+)-cu(?:da)?(\d\d)\.?(\d)(?!\d)")
_INSTALL = re.compile(r"(?:pip3?|uv pip|python3? -m pip)\s+install\b(.*)")
#: Options of installers that are followed by a value.
_VALUED = ("-i", "-f", "-r", "-c", "-t", "--index-url", "--extra-index-url", "--find-links", "--index", "--target",
           "--python", "--torch-backend", "--default-index", "--constraint", "--requirement", "--progress-bar",
           "--trusted-host", "--timeout", "--retries", "--no-binary", "--only-binary")  # fmt: skip


def read_requirements(text: str, file: str, python: str, machine: str) -> LockRead:
    """Includes and constraints are followed; with a hash at every package the file is a lock."""
    environment = environment_of(python or "3.12", machine)
    lines = list(_followed(text, Path(file), set()))
    wanted = [(where, number, line) for where, number, line, limits in lines if not limits]
    pins = [pin for where, number, line in wanted if (pin := pin_of(_bare(line), str(where), number, environment))]
    limits = {
        pin.name: pin
        for where, number, line, is_limit in lines
        if is_limit and (pin := pin_of(_bare(line), str(where), number, environment))
    }
    pins = [limits[one.name] if not one.version and one.name in limits else one for one in pins]
    cudas = [
        cuda for _, _, line, _ in lines if (told := _INDEX.match(line)) and (cuda := cuda_of_index(told[1])) is not None
    ]
    kept, notes = merged(pins)
    is_lock = bool(pins) and all("--hash" in line for _, _, line in wanted if not line.startswith("-"))
    return LockRead(pins=kept, complete=is_lock, cuda=cudas[0] if cudas else None, python=python, notes=notes)


def read_conda(text: str, file: str, python: str, machine: str) -> LockRead:
    """environment.yml: conda's packages and pip's, without a YAML parser, which would not give the lines."""
    environment = environment_of(python or "3.12", machine)
    pins: list[Pin] = []
    cuda = None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*-\s*[\"']?([^\"'#]+)", line)
        if match is None:
            continue
        word = match[1].strip()
        if told := re.match(r"(?:[\w-]+::)?(pytorch-cuda|cuda-version|cudatoolkit)\s*=+\s*(\d+\.\d+)", word):
            cuda = told[2]
        elif told := re.match(r"(?:[\w-]+::)?python\s*=+\s*(\d+\.\d+)", word):
            python = python or told[1]
        elif told := re.match(r"(?:[\w-]+::)?(?:pytorch|torch)\s*=+\s*(\d+\.\d+\.\d+)", word):
            pins.append(Pin(name="torch", file=file, line=number, version=told[1]))
        elif "==" in word or " @ " in word or re.fullmatch(r"[A-Za-z0-9_.-]+(\[.*\])?([<>!~].*)?", word):
            pin = pin_of(word, file, number, environment)
            pins += [pin] if pin else []
        elif told := re.match(r"(?:[\w-]+::)?([A-Za-z0-9_.-]+)\s*=\s*(\d[\w.]*)", word):
            pin = pin_of(f"{told[1]}=={told[2]}", file, number, environment)
            pins += [pin] if pin else []
        elif (told := _INDEX.match(word)) and cuda_of_index(told[1]) is not None:
            cuda = cuda_of_index(told[1])
    kept, notes = merged(pins)
    return LockRead(pins=kept, complete=False, cuda=cuda, python=python, notes=notes)


def read_dockerfile(text: str, file: str, python: str, machine: str) -> LockRead:
    """The base image's torch and CUDA where its name tells them, then each `pip install`, the last one counts."""
    environment = environment_of(python or "3.12", machine)
    pins: dict[str, Pin] = {}
    notes: list[str] = []
    cuda: str | None = None
    for number, line in _instructions(text):
        if line.upper().startswith("FROM "):
            told = _PYTORCH_IMAGE.search(line)
            pins, cuda = {}, None  # a later stage begins anew
            if told:
                pins["torch"] = Pin(name="torch", file=file, line=number, version=told[1])
                cuda = f"{told[2]}.{told[3]}"
            elif "/pytorch:" in line or "/pytorch-" in line:
                notes.append(f"{file}:{number}: which torch that image holds its name does not tell: it is not judged")
            continue
        if not line.upper().startswith("RUN ") or _is_left_out(line):
            continue
        for command in re.split(r"&&|;|\|\|", line):
            found = _INSTALL.search(command)
            if found is None:
                continue
            for pin in _installed(found[1], file, number, environment):
                before = pins.get(pin.name)
                if pin.name == "torch" and before is not None and pin.version and pin.version != before.version:
                    notes.append(
                        f"{file}:{number}: torch {pin.version} replaces torch {before.version} of line {before.line}"
                    )
                if before is None or pin.version or pin.name != "torch":
                    pins[pin.name] = pin
                if pin.name == "torch" and pin.version:
                    cuda = None
            index = _INDEX.search(command)
            if index and "torch" in pins and pins["torch"].line == number:
                cuda = cuda_of_index(index[1])
    return LockRead(pins=tuple(pins.values()), complete=False, cuda=cuda, python=python, notes=tuple(notes))


def _installed(text: str, file: str, line: int, environment: dict[str, str]) -> Iterator[Pin]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and word in _VALUED
            continue
        if "$" in word or word.startswith((".", "/", "git+", "http")):
            continue
        pin = pin_of(word, file, line, environment)
        if pin is not None:
            yield pin


def _is_left_out(line: str) -> bool:
    """True for `if [ "false" == "true" ]`, as an ARG's default leaves an optional part out."""
    told = re.search(r"\bif \[+ [\"']?([^\"'\s]*)[\"']? ==? [\"']?([^\"'\s]*)[\"']? \]", line)
    return told is not None and told[1] != told[2]


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Each instruction on one line with its number; values of ARG are filled in."""
    arguments: dict[str, str] = {}
    for number, line in _joined(text):
        told = re.match(r"\s*(?:ARG|ENV)\s+(\w+)[= ]\"?([^\s\"]+)", line, re.IGNORECASE)
        if told:
            arguments[told[1]] = told[2]
        yield number, re.sub(r"\$\{?(\w+)\}?", lambda one: arguments.get(one[1], one[0]), line.strip())


def _joined(text: str) -> Iterator[tuple[int, str]]:
    began, held = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if held and line.lstrip().startswith("#"):
            continue
        began = began or number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        yield began, held + line
        began, held = 0, ""
    if held:
        yield began, held


def _followed(text: str, file: Path, seen: set[Path], *, limits: bool = False) -> Iterator[tuple[Path, int, str, bool]]:
    """(file, line number, line, it only limits) of a file and what it includes."""
    seen.add(file.resolve())
    for number, raw in _joined(text):
        line = re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()
        told = re.match(r"(-r|--requirement|-c|--constraint)[= ]\s*(\S+)", line)
        if told is None:
            if line:
                yield file, number, line, limits
            continue
        other = file.parent / told[2]
        if other.resolve() in seen or len(seen) >= _MOST_FILES or "://" in told[2]:
            continue
        try:
            included = other.read_text(errors="replace") if other.stat().st_size < _MOST_BYTES else ""
        except OSError:
            continue
        yield from _followed(included, other, seen, limits=limits or "c" in told[1].replace("require", ""))


def _bare(line: str) -> str:
    """Without hashes and other options behind a requirement."""
    return re.split(r"\s--", line, maxsplit=1)[0]
