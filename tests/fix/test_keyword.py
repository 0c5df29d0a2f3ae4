"""One keyword at one call: which call it is, what stays, RECORD in step, and what is left to people."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import py_compile
from dataclasses import replace
from pathlib import Path

import pytest

from attn_doctor.fix.edits.keyword import planned
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.plans import FileEdit
from attn_doctor.model.remedies import EditSource
from attn_doctor.probe.packages import patches
from attn_doctor.probe.packages.keyword_calls import NotThere, keyword
from attn_doctor.probe.packages.packages import take_inventory

#: In the shape of flash-linear-attention's gated slot attention: three calls, of which one is to change.
SOURCE = '''"""chunk_fwd_h(states_in_fp32=False)"""
# chunk_fwd_h(states_in_fp32=False)


def chunk_gsa_fwd_k(q, k):
    return chunk_fwd_h(k=k, states_in_fp32=False)


def chunk_gsa_bwd_k(q, k, h=None, note="chunk_fwd_h(states_in_fp32=False)"):
    """é 你 states_in_fp32=False"""
    if h is None:
        h, _ = chunk_fwd_h(
            k=k,  # é states_in_fp32=False
            states_in_fp32 = False  # here
        )
    return chunk_bwd_dh(q=q, states_in_fp32=True)


class Other:
    def chunk_gsa_bwd_k(self, k):
        return chunk_fwd_h(k=k, states_in_fp32=False)
'''
AFTER = SOURCE.replace("states_in_fp32 = False  # here", "states_in_fp32 = True  # here")
FILE = "fla/ops/gsa/chunk.py"
GSA = EditSource(
    edit="set-keyword",
    packages=("fla-core>=0.3,<0.6", "flash-linear-attention>=0.1,<0.3"),
    file=FILE,
    function="chunk_gsa_bwd_k",
    call="chunk_fwd_h",
    keyword="states_in_fp32",
    value="True",
)


def sha(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class Site:
    """A site-packages folder with one distribution."""

    def __init__(self, prefix: Path, version: str = "0.2.1", newline: str = "\n") -> None:
        self.prefix = prefix
        self.folder = prefix / "lib/python3/site-packages"
        self.file = self.folder / FILE
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(SOURCE.encode())
        self.info = self.folder / f"flash_linear_attention-{version}.dist-info"
        self.info.mkdir()
        (self.info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: flash-linear-attention\nVersion: {version}\n\n"
        )
        own = f"{self.info.name}/RECORD"
        lines = [f'"fla/a, b.py",{sha(b"")},0', f"{FILE},{sha(SOURCE.encode())},{len(SOURCE.encode())}", f"{own},,"]
        (self.info / "RECORD").write_bytes("".join(line + newline for line in lines).encode())
        self.version = version

    def facts(self, **more: object) -> FactSet:
        values = {"version": self.version, "path": str(self.folder), "editable": False, **more}
        return FactSet(
            [Fact(name=FactName("package", "flash-linear-attention", name), state=Known(value), how="test")  # type: ignore[arg-type]
             for name, value in values.items()]
        )  # fmt: skip

    def planned(self, wanted: EditSource = GSA, **more: object) -> tuple[FileEdit, ...]:
        return planned(
            wanted, self.facts(**more), finding="f", prefix=str(self.prefix), project=str(self.prefix.parent)
        )

    def take(self, edits: tuple[FileEdit, ...]) -> None:
        for edit in edits:
            file = Path(edit.file)
            file.write_bytes(spliced(file.read_bytes() if file.exists() else b"", edit.splices))

    def found(self) -> FactSet:
        return FactSet(patches.probe(take_inventory([self.folder])))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site((tmp_path / "environment").resolve())


def test_one_call_of_one_function(site: Site) -> None:
    """The call in that function alone: not in another one, a method of the same name, a comment or a text."""
    site.take(site.planned())

    assert site.file.read_text() == AFTER


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_record_stays_in_step(tmp_path: Path, newline: str) -> None:
    """Its row and that of the note are right, and every other byte stays."""
    site = Site((tmp_path / "environment").resolve(), newline=newline)
    before = (site.info / "RECORD").read_bytes().split(newline.encode())
    site.take(site.planned())
    after = (site.info / "RECORD").read_bytes().split(newline.encode())

    assert [line for line in before if not line.startswith(b"fla/ops")] == [
        line for line in after if not line.startswith(b"fla/ops") and b"attn-doctor" not in line
    ]
    rows = {row[0]: row[1:] for row in csv.reader((site.info / "RECORD").read_text().splitlines())}
    for name in (FILE, f"{site.info.name}/attn-doctor.json"):
        content = (site.folder / name).read_bytes()
        assert rows[name] == [sha(content), str(len(content))]


def test_check_sees_it_until_the_package_is_replaced(site: Site) -> None:
    """While the file is as it was patched, and no longer; and what the source says is a fact of its own."""
    assert site.found().value("source.gsa_states_in_fp32") is False
    assert site.found().value("listed.patch") == 0
    site.take(site.planned())
    found = site.found()
    assert found.value("source.gsa_states_in_fp32") is True
    assert (found.value("patch.0.path"), found.value("patch.0.finding")) == (str(site.file), "f")
    assert found.value("patch.0.package") == "flash-linear-attention"
    site.file.write_text(SOURCE)
    assert site.found().value("listed.patch") == 0


def test_a_second_patch_keeps_the_first_ones_note(site: Site) -> None:
    """Two files of one package, both told."""
    site.take(site.planned())
    other = site.folder / "fla/other.py"
    other.write_text("def f():\n    return g(x=1)\n")
    with (site.info / "RECORD").open("a") as record:
        record.write(f"fla/other.py,{sha(other.read_bytes())},{other.stat().st_size}\n")
    more = replace(GSA, file="fla/other.py", function="f", call="g", keyword="x", value="2")
    site.take(site.planned(more))

    assert site.found().value("listed.patch") == 2
    assert "g(x=2)" in other.read_text()


def test_an_editable_checkout_of_the_project(site: Site, tmp_path: Path) -> None:
    """There is no RECORD to keep: the source alone is edited, and only inside of the current project."""
    checkout = tmp_path.resolve() / "checkout"
    (checkout / FILE).parent.mkdir(parents=True)
    (checkout / FILE).write_text(SOURCE)
    edits = site.planned(path=str(checkout), editable=True)

    assert [Path(edit.file) for edit in edits] == [checkout / FILE]
    with pytest.raises(Refused, match="not the current project"):
        planned(GSA, site.facts(path=str(checkout), editable=True), finding="f", prefix=str(site.prefix), project="")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (AFTER, "True already"),
        (SOURCE.replace("states_in_fp32 = False", "states_in_fp32 = flag"), "computes"),
        (SOURCE.replace("states_in_fp32 = False", "**more"), "gives chunk_fwd_h no"),
        (SOURCE.replace("return chunk_bwd_dh(q", "chunk_fwd_h(k=k); return chunk_bwd_dh(q"), "2 times"),
        (SOURCE.replace("h, _ = chunk_fwd_h", "h, _ = other"), "0 times"),
        (SOURCE + "\n\ndef chunk_gsa_bwd_k(k):\n    pass\n", "2 functions"),
        (SOURCE.replace("def chunk_gsa_bwd_k(q", "def renamed(q"), "0 functions"),
        (SOURCE + "def (:\n", "cannot be parsed"),
        (SOURCE + "x = 1\r", "line breaks"),
    ],
)
def test_another_source_is_left(tmp_path: Path, source: str, reason: str) -> None:
    """Anything that is not exactly the place that the recipe describes."""
    site = Site((tmp_path / "environment").resolve())
    site.file.write_bytes(source.encode())
    record = (site.info / "RECORD").read_text().replace(sha(SOURCE.encode()), sha(source.encode()))
    (site.info / "RECORD").write_text(record)

    with pytest.raises(Refused, match=reason):
        site.planned()


def test_a_file_that_somebody_has_changed(site: Site) -> None:
    """It is not the release that the recipe knows."""
    site.file.write_text(SOURCE + "# mine\n")
    with pytest.raises(Refused, match="not as its RECORD says"):
        site.planned()


@pytest.mark.parametrize("version", ["0.3.0", "0.0.9", "1.0"])
def test_other_releases(tmp_path: Path, version: str) -> None:
    """Only releases for which the edit was written."""
    site = Site((tmp_path / "environment").resolve(), version)
    with pytest.raises(Refused, match="none of the releases"):
        site.planned()


def test_bytecode_that_ignores_its_source(site: Site) -> None:
    """Refused: Python would keep running the old bytecode, so the patch would have no effect."""
    compiled = importlib.util.cache_from_source(str(site.file))
    py_compile.compile(str(site.file), compiled)
    site.planned()
    py_compile.compile(str(site.file), compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    with pytest.raises(Refused, match="never held against"):
        site.planned()


def test_outside_of_the_environment(site: Site, tmp_path: Path) -> None:
    """A package that another prefix holds, and a file that is a link out of it."""
    with pytest.raises(Refused, match="outside"):
        planned(GSA, site.facts(), finding="f", prefix=str(tmp_path / "other"), project="")
    elsewhere = tmp_path / "elsewhere"
    site.folder.rename(elsewhere)
    site.folder.symlink_to(elsewhere)
    with pytest.raises(Refused, match="outside"):
        site.planned()


@pytest.mark.parametrize(
    "fault",
    [
        {"file": "../../etc/passwd.py"},
        {"file": "/etc/evil.py"},
        {"file": "fla/../../evil.py"},
        {"file": "fla/ops/gsa/chunk.txt"},
        {"file": "chunk.py"},
        {"file": "fla/./chunk.py"},
        {"file": "fla\\chunk.py"},
        {"file": "fla/chunk.py\n"},
        {"file": ""},
        {"value": "__import__('os').system('x')"},
        {"value": "True, evil=print()"},
        {"value": "True\n    evil()"},
        {"value": "True)"},
        {"value": '"""'},
        {"value": '"\\"'},
        {"value": ""},
        {"keyword": "x=evil(), y"},
        {"keyword": "a.b"},
        {"call": "f()()"},
        {"call": ""},
        {"function": "f\n"},
        {"function": "ｆ"},
        {"packages": ()},
        {"packages": ("fla @ file:///evil",)},
    ],
)  # fmt: skip
def test_hostile_places_and_values(site: Site, fault: dict[str, object]) -> None:
    """What could lead elsewhere or become code is refused, whoever wrote it."""
    sound = replace(GSA, packages=("flash-linear-attention>=0.1,<0.3",))
    assert site.planned(sound)
    with pytest.raises(Refused):
        site.planned(replace(sound, **fault))  # type: ignore[arg-type]


def test_methods_have_a_qualified_name() -> None:
    """`Class.method`; and a function behind a condition is found as well."""
    assert keyword(SOURCE.encode(), "Other.chunk_gsa_bwd_k", "chunk_fwd_h", "states_in_fp32").value is False
    guarded = b"if True:\n    def f():\n        return a.b(x='y')\n"
    assert keyword(guarded, "f", "a.b", "x").value == "y"
    with pytest.raises(NotThere):
        keyword(guarded, "f", "b", "x")
