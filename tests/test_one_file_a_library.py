"""An attention library is known in its own file, and nowhere else: the rest reads it there.

Data (recipes/), documentation and tests spell its names too; so do docstrings and comments, which are for people.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.model import libraries as described
from attn_doctor.model import library_files
from attn_doctor.patient.kernels import registry
from attn_doctor.patient.libraries import LIBRARIES, Library, flash_attn_3

PACKAGE = Path(__file__).resolve().parent.parent / "attn_doctor"
HOME = PACKAGE / "patient" / "libraries"

#: File -> why it spells a name all the same. A key of a configuration that is called as a library is that framework's.
_KEY = "a key or a value of a framework's configuration"
_TABLE = "the name by which a table of the shelf is asked for"
EXCEPTIONS = {
    "recipes/schema/actions.py": _TABLE,
    "recipes/data/torch_releases.py": _TABLE,
    "recipes/data/wheels.py": _TABLE,
    "fix/treatments/set_config.py": _KEY,
    "fix/edits/config_keys.py": _KEY,
    "model/vocabulary.py": "sentences for people that say what a fact is",
    "probe/configs/files.py": _KEY,
    "probe/configs/frameworks.py": _KEY,
    "probe/configs/llamafactory.py": _KEY,
    "probe/configs/sources.py": _KEY,
    "probe/configs/configs.py": _KEY,
    "probe/trace/packing_trainers.py": _KEY,
    "probe/packages/patches.py": "one fault of one release, looked for in that library's source",
    "report/renderers/prometheus.py": "labels of a metric, which queries elsewhere name",
}


def names(of: Iterable[Library] = LIBRARIES) -> set[str]:
    """What they are published, imported, asked for and tried as; what is torch's own has no name of its own."""
    found: set[str] = set()
    for library in of:
        if library.distributions:
            found |= {*library.distributions, *library.also_called, *library.extensions, *library.kernels_in}
            found |= {library.module, library.top_level, library.imports, library.key}
            found |= {backend.name for backend in library.backends} | {sample.name for sample in library.samples}
    return found - {""}


def spelled(source: str, wanted: re.Pattern[str]) -> list[str]:
    """The strings of a file in which a name stands, docstrings apart."""
    tree = ast.parse(source)
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in prose
        and wanted.search(node.value)
    ]


def pattern(of: Iterable[str] = frozenset(names())) -> re.Pattern[str]:
    longest_first = sorted(filter(None, of), key=len, reverse=True) or ["(?!)"]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")


def _home(library: Library) -> str:
    """The file of a library, without its ending."""
    return next(
        file.stem
        for file in HOME.glob("*.py")
        if f'\nLIBRARY = Library(\n    name="{library.name}",\n' in file.read_text()
    )


def test_a_name_stands_in_its_own_file_alone() -> None:
    """Nothing else spells a library's name, but for the exceptions, and each of these still does."""
    wanted = pattern()
    found = {
        str(file.relative_to(PACKAGE)): strings
        for file in sorted(PACKAGE.rglob("*.py"))
        if HOME not in file.parents and (strings := spelled(file.read_text(), wanted))
    }

    assert {file: strings for file, strings in found.items() if file not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(found), "an exception that nobody needs"


def test_a_library_spells_no_other() -> None:
    """Nor does the file of one library spell another's name, or what they share spell any."""
    others = {}
    for file in sorted(HOME.glob("*.py")):
        own = [one for one in LIBRARIES if file.stem == _home(one) or file.stem.startswith(_home(one) + "_")]
        allowed = names(own[-1:]) | {backend.apart_from for one in own[-1:] for backend in one.backends}
        wanted = pattern(names() - allowed)
        mine = re.compile(pattern(allowed).pattern + r"(?:\\?\.\w+)*")
        found = [text for text in spelled(file.read_text(), wanted) if wanted.search(mine.sub("", text))]
        if found:
            others[file.name] = found

    # People call it flash_attn 3, and so do the words of its stand-in.
    assert others == {"flash_attn_3.py": [flash_attn_3.LIBRARY.words]}


def test_the_law_sees_a_name() -> None:
    """A name in a string, whole or within a longer one, and in an f-string; not in prose."""
    wanted = pattern()

    for source in ('x = "flash_attn"', 'x = "import xformers.ops"', 'x = f"package.flash-attn.{y}"', 'f("fla-core")'):
        assert spelled(source, wanted), source
    for source in ('"""xformers."""', "x = 1  # xformers", 'x = "flat"', 'x = "vllm_flash_attn"'):
        assert not spelled(source, wanted), source


def test_the_doctors_side_reads_what_the_record_says() -> None:
    """Every literal of a record is read from its file as the file itself means it."""
    assert [one.name for one in described.libraries()] == [one.name for one in LIBRARIES]
    for read, record in zip(described.libraries(), LIBRARIES, strict=True):
        assert (read.key, read.top_level) == (record.key, record.top_level)
        assert read.samples == tuple(sample.name for sample in record.samples)
        for field in dataclasses.fields(read):
            if field.name not in ("backends", "samples"):
                assert getattr(read, field.name) == getattr(record, field.name), (record.name, field.name)
        for kernel, backend in zip(read.backends, record.backends, strict=True):
            assert all(getattr(kernel, one.name) == getattr(backend, one.name) for one in dataclasses.fields(kernel))


def test_order_and_names_are_each_ones_own() -> None:
    """Two libraries share neither a place in lists nor a name of a distribution, a kernel or a sample."""
    for of_each in (
        [[str(one.order)] for one in LIBRARIES],
        [[one.name] for one in LIBRARIES],
        [[one.key] for one in LIBRARIES],
        [list(one.distributions) for one in LIBRARIES],
        [[backend.name for backend in one.backends] for one in LIBRARIES],
        [[sample.name for sample in one.samples] for one in LIBRARIES],
    ):
        flat = [name for names in of_each for name in names]
        assert len(flat) == len(set(flat)), flat


def test_a_wheel_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON that a wheel brings gives the same libraries as the files."""
    (tmp_path / described.COMPILED).write_text(library_files.compile_libraries(HOME))
    from_files = described.libraries()
    monkeypatch.setattr(described, "__file__", str(tmp_path / "libraries.py"))

    assert described.libraries.__wrapped__() == from_files


def test_a_new_library_is_one_file(tmp_path: Path) -> None:
    """A file in the folder is read by the doctor's side as it lies there; what is no literal is left to the patient."""
    (tmp_path / "novel.py").write_text(
        "def clauses(call): ...\n\nLIBRARY = Library(\n"
        '    name="novel", order=90, module="novel.ops", distributions=("novel-attention",), clauses=clauses,\n'
        '    backends=(Backend(name="novel", title="Novel", calls="novel", contract=clauses),),\n)\n'
    )
    (tmp_path / "contract.py").write_text("x = 1\n")

    rows: list[dict[str, Any]] = library_files.read(tmp_path)

    assert [(row["name"], row["distributions"]) for row in rows] == [("novel", ["novel-attention"])]
    assert "clauses" not in rows[0]
    assert "contract" not in rows[0]["backends"][0]


def test_every_kernel_has_its_call() -> None:
    """What is no preview has a module with `prepare`, and a contract."""
    for backend in registry.BACKENDS:
        assert backend.contract is not None, backend.name
        if backend.calls is not None:
            source = (HOME / f"{backend.calls}.py").read_text()
            wanted = ["prepare"] + ["chosen"] * backend.chooses + ["make_problem", "reference"] * backend.linear
            assert all(f"\ndef {name}(" in source for name in wanted), backend.name
