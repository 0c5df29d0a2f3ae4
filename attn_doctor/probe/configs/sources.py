"""The configurations behind one file of --config: the file itself; for a shell script, each of its calls and their
files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.probe.configs.files import HINT, read, read_text, subject_of
from attn_doctor.probe.configs.frameworks import kind_of
from attn_doctor.probe.configs.shell_calls import Call, NamedFile, calls, files
from attn_doctor.quick_dataclasses import dataclass

#: Arguments of a call that concern attention or precision, in addition to its configuration file.
_TELL = frozenset({"flash_attn", "attn_implementation", "bf16", "fp16", "pure_bf16", "stage", "finetuning_type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One configuration."""

    file: Path
    line: int | None = None
    """Line of the call in the script, when there are several."""
    calls: int = 0
    """Line of the first call, when the file is a script."""
    under: Path | None = None
    """The configuration file given to the call; it applies to every key that the call does not set."""
    how: str = ""
    """How it was found, when it was not named on the command line."""
    missing: str = ""
    """Why it could not be read."""

    @property
    def subject(self) -> str:
        """Its name in facts."""
        return subject_of(self.file, self.line)


def sources(file: Path, beside: Iterable[Path] = ()) -> tuple[Source, ...]:
    """Every configuration behind the file; `beside` are the other files named.

    Raises BadInput for a file that cannot be read, or a script without a known call.
    """
    text, form = read_text(file)
    if form != "shell":
        return (Source(file=file),)
    every = tuple(calls(text))
    given = tuple(files(text))
    named = {os.path.realpath(one) for one in beside}
    found: list[Source] = []
    followed: list[Source] = []
    for one in given:
        source = _followed(one, file)
        if source.missing or os.path.realpath(source.file) not in named:
            named.add(os.path.realpath(source.file))
            followed.append(source)
    judged = [call for call in every if call.arguments and (_tells(call) or not _own(call, given))]
    for call in judged:
        own = _own(call, given)
        under = None if own is None else _followed(own, file)
        found.append(
            Source(
                file=file,
                line=call.line if len(judged) > 1 else None,
                calls=call.line,
                under=None if under is None or under.missing else under.file,
            )
        )
    if not found and followed and all(one.missing for one in followed):
        raise BadInput(
            followed[0].missing, about=f"--config {file}", hint="Name that file itself with --config as well."
        )
    if not found and not given:
        raise BadInput("the file is no configuration that attn-doctor knows", about=f"--config {file}", hint=HINT)
    # A file with keys overridden by the only call that reads it is reported with that call, not separately.
    overlaid = {os.path.realpath(one.under) for one in found if one.under is not None}
    plain = {
        os.path.realpath(_followed(one, file).file)
        for one in given
        if not any(call.line == one.call for call in judged)
    }
    return (*found, *(one for one in followed if os.path.realpath(one.file) not in overlaid - plain))


def followed_files(configs: Iterable[Path]) -> tuple[Path, ...]:
    """The files, each script followed by the files given to its calls. Raises BadInput."""
    named = tuple(configs)
    found: dict[str, Path] = {}
    for file in named:
        for source in (Source(file=file), *sources(file, named)):
            if not source.missing:
                found.setdefault(os.path.realpath(source.file), source.file)
    return tuple(found.values())


def _tells(call: Call) -> bool:
    return any(one.key in _TELL for one in call.arguments)


def _own(call: Call, given: Iterable[NamedFile]) -> NamedFile | None:
    return next((one for one in given if one.call == call.line), None)


def _followed(one: NamedFile, script: Path) -> Source:
    where = f"{script}:{one.line}"
    if not one.known:
        return _missing(one, f"{where} names {one.path}, which only the shell knows")
    places = dict(_places(one, script))
    there = {os.path.realpath(path): (path, words) for path, words in places.items() if path.is_file()}
    if len(there) == 1:
        ((path, words),) = there.values()
        fault = _fault(path)
        if fault:
            return _missing(one, f"{where} names {one.path}, and {fault}")
        return Source(file=path, how=f"named in {where}, found {words}")
    looked = " nor ".join(dict.fromkeys(places.values()))
    if not there:
        return _missing(one, f"{where} names {one.path}, which is neither {looked}")
    return _missing(one, f"{where} names {one.path}, and there are several: {', '.join(str(p) for p in places)}")


def _fault(path: Path) -> str:
    """Why the file cannot be examined. It was not named on the command line, so this is not a user's mistake."""
    try:
        settings = read(path)
    except BadInput as error:
        return error.what
    return "" if kind_of(settings) else "it is no configuration that attn-doctor knows"


def _missing(one: NamedFile, words: str) -> Source:
    return Source(file=Path(one.path), missing=words, how="looked for what the script names")


def _places(one: NamedFile, script: Path) -> Iterator[tuple[Path, str]]:
    path = Path(one.path).expanduser() if one.path.startswith("~/") else Path(one.path)
    if path.is_absolute():
        yield path, "there"
        return
    if one.folder is not None:
        for base in (Path(), script.parent):
            yield Path(os.path.normpath(base / one.folder / path)), f"in {one.folder}, where the script goes before"
        return
    yield path, "in the current folder"
    yield script.parent / path, "beside the script"
