"""`edit-source`, set-keyword: sets a keyword of one call in an installed package, or in a checkout in the current
project.

The recipe gives the place as data; the parser finds the call. In site-packages the distribution's RECORD is updated, so
that a verification still succeeds; `dist-info/attn-doctor.json` records the patch, so that `check` can report it.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from attn_doctor.fix.edits.splices import file_edit, spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import FileEdit, Splice
from attn_doctor.model.remedies import EditSource
from attn_doctor.probe.packages.keyword_calls import NotThere, keyword
from attn_doctor.probe.packages.patches import NOTE
from attn_doctor.recipes.schema.allowed_edits import keyword_fault


def planned(wanted: EditSource, facts: FactSet, *, finding: str, prefix: str, project: str) -> tuple[FileEdit, ...]:
    """The edits, in the order in which they are made.

    `prefix` is the target's environment, `project` the current project, both with links resolved. Raises Refused,
    OSError.
    """
    _check_plain(wanted)
    name = _package(wanted, facts)
    own = f"package.{name}."
    folder = Path(facts.text(own + "path") or "/nonexistent").resolve()
    file = folder / PurePosixPath(wanted.file)
    if facts.value(own + "editable") is True:
        if not project or not file.is_relative_to(project):
            raise Refused(f"{name} is an editable install of {folder}, which is not the current project")
        return (_edited(wanted, file, file.read_bytes()),)
    if not file.is_relative_to(prefix):
        raise Refused(f"{file} is outside of the environment")
    content = file.read_bytes()
    _check_bytecode(file)
    edit = _edited(wanted, file, content)
    info, record = _record(folder, facts.text(own + "distribution") or name, wanted.file)
    _check_untouched(record, wanted.file, content, file)
    after = spliced(content, edit.splices)
    note = _note(info, wanted.file, after, content, finding)
    noted = (info / NOTE).relative_to(folder).as_posix()
    return edit, _whole(info / NOTE, note), _recorded(info / "RECORD", record, {wanted.file: after, noted: note})


def _check_plain(wanted: EditSource) -> None:
    """Raises Refused unless the edit names a plain place and a literal."""
    fault = keyword_fault(
        file=wanted.file,
        function=wanted.function,
        call=wanted.call,
        keyword=wanted.keyword,
        value=wanted.value,
    )
    if fault or not wanted.packages:
        raise Refused(fault or "the edit names no packages")


def _package(wanted: EditSource, facts: FactSet) -> str:
    reasons = []
    for text in wanted.packages:
        try:
            requirement = Requirement(text)
            name = str(canonical_name(requirement.name))
            version = facts.text(FactName("package", name, "version"))
            if version is None:
                continue
            if requirement.specifier.contains(Version(version), prereleases=True):
                return name
        except (InvalidRequirement, InvalidVersion) as error:
            raise Refused(f"{text!r} names no releases: {error}") from None
        reasons.append(f"{name} {version} is none of the releases whose source is known ({requirement.specifier})")
    raise Refused(reasons[0] if reasons else "none of its packages is installed")


def _edited(wanted: EditSource, file: Path, content: bytes) -> FileEdit:
    try:
        found = keyword(content, wanted.function, wanted.call, wanted.keyword)
        splices = (Splice(start=found.start, end=found.end, text=wanted.value),)
        after = spliced(content, splices)
        now = keyword(after, wanted.function, wanted.call, wanted.keyword).value
    except NotThere as error:
        raise Refused(f"{file}: {error}") from None
    meant = ast.literal_eval(wanted.value)
    if found.value is meant or (type(found.value) is type(meant) and found.value == meant):
        raise Refused(f"{file}: {wanted.keyword} is {wanted.value} already; something else decides")
    if type(now) is not type(meant) or now != meant:
        raise Refused(f"{file}: the edit would change more than the one keyword")
    return file_edit(str(file), content, splices)


def _check_bytecode(file: Path) -> None:
    """Raises Refused when Python would keep running old bytecode: unchecked hash-based .pyc files (PEP 552)."""
    for compiled in sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")):
        with compiled.open("rb") as stream:
            head = stream.read(8)
        if len(head) == 8 and head[4] & 0b11 == 0b01:
            raise Refused(f"{compiled} is bytecode that is never held against its source")


def _record(folder: Path, name: str, file: str) -> tuple[Path, str]:
    """The dist-info that lists the file, and the text of its RECORD."""
    found = []
    for info in sorted(folder.glob("*.dist-info")):
        if canonical_name(info.name.split("-", 1)[0]) != name or info.is_symlink():
            continue
        with (info / "RECORD").open("rb") as stream:
            text = stream.read().decode()
        if any(row and row[0] == file for row in csv.reader(io.StringIO(text, newline=""))):
            found.append((info, text))
    if len(found) != 1:
        raise Refused(f"{len(found)} distributions named {name} list {file} in their RECORD, where one was expected")
    return found[0]


def _check_untouched(record: str, name: str, content: bytes, file: Path) -> None:
    row = next(row for row in csv.reader(io.StringIO(record, newline="")) if row and row[0] == name)
    if len(row) != 3 or row[1] != _hash(content):
        raise Refused(f"{file} is not as its RECORD says: somebody has changed it since it was installed")


def _recorded(file: Path, record: str, contents: dict[str, bytes]) -> FileEdit:
    """The edit of RECORD that updates the rows of these files; every other byte stays."""
    splices = []
    at = 0
    todo = dict(contents)
    for line in record.splitlines(keepends=True):
        row = next(csv.reader([line]), [])
        body = line.rstrip("\r\n")
        if row and row[0] in todo:
            text = _row(row[0], todo.pop(row[0]))
            splices.append(Splice(start=at, end=at + len(body.encode()), text=text))
        at += len(line.encode())
    newline = "\r\n" if "\r\n" in record else "\n"
    more = "".join(_row(name, content) + newline for name, content in todo.items())
    if more:
        splices.append(Splice(start=at, end=at, text=("" if record.endswith("\n") else newline) + more))
    return file_edit(str(file), record.encode(), tuple(splices))


def _row(name: str, content: bytes) -> str:
    return f"{name},{_hash(content)},{len(content)}"


def _hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _note(info: Path, file: str, after: bytes, before: bytes, finding: str) -> bytes:
    try:
        known = json.loads((info / NOTE).read_bytes())["patched"]
        others = [one for one in known if one["file"] != file]
    except FileNotFoundError:
        others = []
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{info / NOTE} cannot be read: {type(error).__name__}") from None
    mine = {
        "file": file,
        "finding": finding,
        "before": hashlib.sha256(before).hexdigest(),
        "sha256": hashlib.sha256(after).hexdigest(),
    }
    return (json.dumps({"patched": [*others, mine]}, indent=2) + "\n").encode()


def _whole(file: Path, content: bytes) -> FileEdit:
    try:
        before = file.read_bytes()
    except FileNotFoundError:
        before = None
    return file_edit(str(file), before, (Splice(start=0, end=len(before or b""), text=content.decode()),))
