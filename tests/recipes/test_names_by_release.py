"""What bench/harvest_names.py reads from releases: made-up wheels of three releases; no registry is asked."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.recipes.kept import bundled_folder
from bench import harvest_names
from bench.names_around import Around
from bench.names_table import rows_of
from bench.python_names import read_file
from bench.released_names import ReleasedNames, module_of
from bench.released_sources import in_archive

_OLD = "class OldAttention:\n    def seen_tokens(self): ...\n"
_BASE = "class Base:\n    def get_seq_length(self): ...\n"
_LATER = "def sdpa_forward(q, k, softcap=None): ...\n"
_BY_IMPORT = "if True:\n    from .masks import create_mask\n    __all__ = ['sdpa_forward', 'create_mask']\n"
#: One package, release by release. What stays in all three is never listed.
RELEASES: tuple[dict[str, str], ...] = (
    {
        "made/__init__.py": "from .attention import *\nfrom .old import helper\n",
        "made/attention.py": f"import os\ndef sdpa_forward(q, k): ...\n{_OLD}",
        "made/old.py": "def helper(): ...\n",
        "made/cache.py": "class Cache:\n    def get_max_length(self): ...\n    def get_seq_length(self): ...\n",
        "made/tests/test_it.py": "only_of_tests = 1\n",
    },
    {
        "made/__init__.py": "from .attention import *\n",
        "made/attention.py": f"import sys\n{_LATER}{_OLD}",
        "made/cache.py": f"{_BASE}class Cache(Base):\n    def get_max_length(self): ...\n",
    },
    {
        "made/__init__.py": "from .attention import *\n",
        "made/attention.py": f"{_LATER}{_BY_IMPORT}",
        "made/masks.py": "def create_mask(): ...\n",
        "made/cache.py": f"{_BASE}class Cache(Base): ...\n",
    },
)


def looked_at(tmp_path: Path, releases: tuple[dict[str, str], ...] = RELEASES) -> list[ReleasedNames]:
    """The releases, read from wheels as `read` does."""
    known: dict[str, Any] = {}
    found = []
    for number, files in enumerate(releases):
        wheel = tmp_path / f"made-0.{number}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        modules = harvest_names.read_release("made", in_archive(wheel, (".py", ".pyi")), known)
        found.append(ReleasedNames("made", {module: known[digest] for module, digest in modules.items()}))
    return found


def test_what_came_and_what_left(tmp_path: Path) -> None:
    """Names, methods and parameters with the release that brought or took them; not what moved to a base."""
    assert rows_of(looked_at(tmp_path), ["0.0", "0.1", "0.2"], {}) == [
        {"since": None, "until": "0.1", "in": {"made": "helper old"}},
        {
            "since": None,
            "until": "0.2",
            "in": {"made": "OldAttention", "made.attention": "OldAttention", "made.cache.Cache": "get_max_length"},
        },
        {"since": "0.1", "until": None, "in": {"made.attention.sdpa_forward()": "softcap", "made.cache": "Base"}},
        {"since": "0.2", "until": None, "in": {"made": "create_mask masks", "made.attention": "create_mask"}},
    ]


def test_nothing_is_said_of_a_name_that_came_again(tmp_path: Path) -> None:
    """A name with a gap is left out."""
    files = ({"made/a.py": "x = 1\ny = 1\n"}, {"made/a.py": "x = 1\n"}, {"made/a.py": "x = y = 1\n"})
    assert rows_of(looked_at(tmp_path, files), ["0.0", "0.1", "0.2"], {}) == []


def test_what_a_release_between_lacks_is_in_no_row() -> None:
    """Of each number the last release alone is read."""
    rows = [{"in": {"a.b": "Mask Kernel", "a.c": "Mask"}}, {"in": {"a.b": "Mask"}}]
    harvest_names.leave_out(rows, {"a.b": {"Mask"}})

    assert [row["in"] for row in rows] == [{"a.b": "Kernel", "a.c": "Mask"}, {}]


def test_a_base_of_another_package_may_have_it(tmp_path: Path) -> None:
    """A field that left is not listed where the base in another package has had it."""
    head = "from dataclasses import dataclass\nfrom other import Arguments\n@dataclass\nclass RunConfig(Arguments):\n"
    bodies = ("    lr: float = 0\n    packing: bool = False\n", "    lr_2: int = 0\n")
    files = tuple({"made/a.py": f"{head}{body}"} for body in bodies)
    (left, _) = rows_of(looked_at(tmp_path, files), ["0.0", "0.1"], {("other", "Arguments"): {"lr"}})
    assert left["in"] == {"made.a.RunConfig.__init__()": "packing"}


def test_of_packages_around_attention_what_is_public_counts(tmp_path: Path) -> None:
    """Any public name, class or function; nothing of private modules, and nothing that a __getattr__ may answer to."""
    old = "def read(path, sep=None): ...\nclass Frame:\n    def append(self): ...\n"
    gone = "__former_attrs__ = {'float': 'Say float.'}\ndef __getattr__(name):\n    if name == 'perhaps': return 1\n"
    files = (
        {"made/__init__.py": f"{old}perhaps = 1\n", "made/_own.py": "here = 1\n", "made/config.py": "x = 1\n"},
        {"made/__init__.py": f"{gone}config = 1\ndef read(path): ...\nclass Frame: ...\n", "made/_own.py": ""},
    )
    releases = looked_at(tmp_path, files)
    (left,) = rows_of(releases, ["1", "2"], {}, Around(releases))
    assert left["in"] == {"made": "float", "made./": "config", "made.Frame": "append", "made.read()": "sep"}


def test_lazy_modules_tell_their_names() -> None:
    """Tables of lazy modules in their usual forms, with what only a type checker imports beside them."""
    source = b"""
from typing import TYPE_CHECKING
_import_structure = {"models.llama": ["LlamaModel"], "utils": []}
_import_structure["utils"].append("is_flash_attn_2_available")
_import_structure["cache_utils"] = ["DynamicCache"]
if TYPE_CHECKING:
    from .hidden import Hidden
"""
    names = read_file(source)
    assert names is not None
    assert {"LlamaModel", "is_flash_attn_2_available", "DynamicCache"} <= set(names["lazy"])
    assert names["typing"] == ["Hidden"]
    assert {"DynamicCache", "Hidden"} <= ReleasedNames("made", {"made": {**names, "package": True}}).bound("made")


@pytest.mark.parametrize(
    ("file", "root", "module"),
    [
        ("torch/nn/attention/__init__.py", "torch", "torch.nn.attention"),
        ("flash_attn-2.6.3/flash_attn/bert_padding.py", "flash_attn", "flash_attn.bert_padding"),
        ("pkg-1/src/flash_attn/x.pyi", "flash_attn", "flash_attn.x"),
        ("flash_attn-2.6.3/tests/flash_attn/x.py", "flash_attn", None),
        ("torchgen/model.py", "torch", None),
    ],
)
def test_modules_of_files(file: str, root: str, module: str | None) -> None:
    """Wheels and sdists; files beside the import root are nobody's module."""
    assert module_of(file, root) == module


def test_the_file_has_its_form() -> None:
    """Every row of the shipped table names a span within the looked-at releases and at least one name."""
    table = json.loads((bundled_folder() / harvest_names.FILE.name).read_bytes())
    assert table["format"] == harvest_names.FORMAT
    for root, package in table["packages"].items():
        minors = {release.rpartition(".")[0] for release in package["releases"]} | set(package["releases"])
        for row in package["names"]:
            assert row["since"] or row["until"], root
            assert all(names and key.partition(".")[0] == root for key, names in row["in"].items())
            for end in (row["since"], row["until"]):
                assert end is None or any(one == end or one.startswith(f"{end}.") for one in minors), (root, end)
    assert harvest_names.FILE.stat().st_size < 1_830_000
