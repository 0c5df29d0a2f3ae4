"""Wheels that are opened before anything is installed."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_doctor.machine.web import Unreachable
from attn_doctor.model.stack import PlannedNode
from attn_doctor.recipes.data import torch_releases
from attn_doctor.recipes.data.stack_packages import stack_package
from attn_doctor.stack.proof import known
from attn_doctor.stack.proof.judge import prove, prove_torch
from attn_doctor.stack.proof.remote_file import RemoteFile
from attn_doctor.stack.proof.wheel_code import LibraryCode, NoWheel, WheelCode, code_behind, code_of

H100 = PlannedNode(gpu="h100", capability="9.0", python="3.12", glibc="2.35")
XFORMERS = "xformers-0.0.35-py39-none-manylinux_2_28_x86_64.whl"


def code(**fields: object) -> WheelCode:
    return WheelCode(libraries=(LibraryCode(name="x/_C.so", links_torch=True, **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"gpu_code": ("sm_75", "sm_80"), "cudart_major": 13}, "none for 9.0"),
        ({"gpu_code": ("sm_80", "sm_90a"), "cudart_major": 12}, "needs the CUDA 12 runtime, torch brings that of 13.0"),
        ({"glibc": "2.38"}, "needs glibc 2.38, the node has 2.35"),
    ],
)
def test_what_does_not_fit(fields: dict[str, object], says: str) -> None:
    """GPU code, CUDA runtime, C library: each is a reason by itself."""
    proof = prove("xformers", XFORMERS, code(**fields), H100, torch="2.13.0", cuda="13.0")

    assert says in proof.words
    assert proof.broken


def test_what_fits_is_said() -> None:
    """PTX runs on every newer GPU."""
    node = PlannedNode(gpu="b200", capability="10.0", python="3.12", glibc="2.35")
    found = code(gpu_code=("sm_75", "compute_80"), cudart_major=12, glibc="2.14")

    proof = prove("xformers", XFORMERS, found, node, torch="2.9.1", cuda="12.8")

    assert not proof.broken
    assert "GPU code for 10.0" in proof.words


def test_a_part_without_code_is_named() -> None:
    """The wheel runs, one of its libraries does not."""
    libraries = (LibraryCode(name="a.so", gpu_code=("sm_90",)), LibraryCode(name="b.so", gpu_code=("sm_80",)))

    proof = prove("xformers", XFORMERS, WheelCode(libraries=libraries), H100, torch="2.9.1", cuda="12.8")

    assert proof.proven[0] == "GPU code for 9.0, not in b.so"


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("x-1-cp312-cp312-manylinux_2_28_x86_64.whl", True),
        ("x-1-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("x-1-py3-none-any.whl", True),
        ("x-1-cp311-cp311-manylinux_2_28_x86_64.whl", False),
    ],
)
def test_tags(file: str, fits: bool) -> None:
    """A wheel for another Python does not install."""
    assert (not prove("x", file, WheelCode(libraries=()), H100, torch="2.9.1", cuda="").broken) is fits


def test_symbols_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a release lacks, and a release that nobody looked at."""
    table = {
        "symbols": ["_ZN2at1aEv", "_ZN2at4cuda1bEv"],
        "wheels": {},
        "torch": {
            "2.9.1+cu128": {"of": 2, "lacks": [0]},
            "2.8.0+cu128": {"of": 2, "lacks": []},
        },
    }
    monkeypatch.setattr(known, "_table", lambda: table)
    known._numbers.cache_clear()
    needs = code(torch_symbols=("_ZN2at1aEv", "_ZN2at4cuda1bEv"))

    def words(torch: str) -> str:
        return prove("xformers", XFORMERS, needs, H100, torch=torch, cuda="12.8").words

    assert "lacks 1 of its symbols, _ZN2at1aEv" in words("2.9.1")
    assert "2 symbols of torch 2.8.0" in words("2.8.0")
    assert "not known: whether torch 2.7.0" in words("2.7.0")
    known._numbers.cache_clear()


def test_the_table_is_whole() -> None:
    """Each wheel's symbols are listed; each row of torch says how many it was held against."""
    table = known._table()

    assert table["wheels"]
    for sha256, row in table["wheels"].items():
        assert len(sha256) == 64
        found = known.known_code(sha256)
        assert found is not None
        assert len(found.libraries) == len(row["libraries"])
    assert all(row["of"] <= len(table["symbols"]) for row in table["torch"].values())


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("xformers-0.0.35-", {"2.10.0", "2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1", "2.15.0"}),
        ("xformers-0.0.33.post2-", {"2.9.0", "2.9.1"}),
        ("xformers-0.0.32.post2-", {"2.8.0"}),
        ("xformers-0.0.29.post3-", {"2.6.0"}),
        ("xformers-0.0.27.post2-", {"2.4.0", "2.4.1", "2.5.0", "2.5.1"}),
        ("vllm-0.32.0-", {"2.13.0"}),
        ("vllm-0.8.5.post1-", {"2.6.0"}),
        ("sgl_kernel-0.3.21-", {"2.9.0", "2.9.1"}),
    ],
)
def test_symbols_agree_with_what_is_published(file: str, fits: set[str]) -> None:
    """Each has its symbols in the torch that it is published for, and lacks some in the others."""
    table = known._table()
    sha256 = next(one for one, row in table["wheels"].items() if row["file"].startswith(file))
    code = known.known_code(sha256)
    assert code is not None
    symbols = tuple(dict.fromkeys(symbol for one in code.libraries for symbol in one.torch_symbols))

    held = {key.partition("+")[0]: known.lacking_in_torch(symbols, *key.split("+")) for key in table["torch"]}

    assert {torch for torch, lacking in held.items() if lacking == ()} == fits


def test_each_vllm_has_its_symbols_in_the_torch_that_it_is_made_for() -> None:
    """The row of packages.toml, held against the wheels."""
    row = stack_package("vllm")
    assert row is not None
    held = 0
    for sha256, wheel in known._table()["wheels"].items():
        if not wheel["file"].startswith("vllm-"):
            continue
        code = known.known_code(sha256)
        assert code is not None
        symbols = tuple(dict.fromkeys(symbol for one in code.libraries for symbol in one.torch_symbols))
        torch = row.torch_of(wheel["file"].split("-")[1])
        build = f"cu{(torch_releases.registry_cuda(torch) or '').replace('.', '')}"
        assert known.lacking_in_torch(symbols, torch, build) == (), wheel["file"]
        held += 1
    assert held == len(row.made_for)


def test_every_release_of_torch_holds_the_code_that_its_table_says() -> None:
    """Opened wheels, held against what plans and `check` rest on."""
    opened = {one: known.opened_torch(*one.split("+")) for one in known._table()["torch"]}

    for version, wheel in opened.items():
        torch, _, build = version.partition("+")
        table = torch_releases.gpu_code(torch_releases.Build(torch=torch, cuda=f"{build[2:-1]}.{build[-1]}"))
        assert wheel is not None
        code = {one for one in wheel.gpu_code if one[3:].isdigit() and one.startswith("sm_")}
        # Single kernels are compiled for more: 8.9 for FP8, 12.1.
        assert {f"sm_{one.replace('.', '')}" for one in table} == code - {"sm_89", "sm_121"}, version


def test_torch_itself_is_proven() -> None:
    """By the very wheel that was opened, or by that of another Python, which is said."""
    row = known.opened_torch("2.13.0", "cu130")
    assert row is not None
    same = prove_torch("2.13.0", row.file, row.sha256, H100, build="cu130")
    assert same is not None
    assert same.words == "GPU code for 9.0"
    other = prove_torch("2.13.0", "torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl", "", H100, build="cu130")
    assert other is not None
    assert other.words.endswith(f"seen in {row.file}")
    v100 = prove_torch("2.13.0", row.file, row.sha256, PlannedNode(gpu="v100", capability="7.0"), build="cu130")
    assert v100 is not None
    assert v100.broken
    assert prove_torch("2.13.0", "", "", H100, build="cu126") is None


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "pages" / "x-1-py3-none-any.whl"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/big.txt", bytes(range(256)) * 40_000)
        archive.writestr("x/_C.so", "no library at all")
    return file


class _Parts(http.server.SimpleHTTPRequestHandler):
    """Sends parts of files, as registries do."""

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        data, span = file.read_bytes(), self.headers.get("Range", "")
        start, _, end = span.removeprefix("bytes=").partition("-")
        if not span or "whole" in self.path:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)
            return
        first = int(start) if start else max(0, len(data) - int(end))
        part = data[first : int(end) + 1 if start else None]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(wheel: Path) -> Iterator[str]:
    handler = functools.partial(_Parts, directory=str(wheel.parent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{wheel.name}"
    server.shutdown()
    thread.join()


def test_a_remote_wheel(wheel: Path, address: str, tmp_path: Path) -> None:
    """It is read whole, held against the hash of its index, counted, and not kept."""
    found = code_behind(address, tmp_path, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())

    assert [(one.name, bool(one.unreadable)) for one in found.libraries] == [("x/_C.so", True)]
    assert found.downloaded >= wheel.stat().st_size
    assert not list(tmp_path.glob("*.whl"))
    with pytest.raises(NoWheel, match="SHA-256"):
        code_behind(address, tmp_path, sha256="0" * 64)


def test_a_server_without_parts(wheel: Path, address: str) -> None:
    """One message, and what to do."""
    wheel.rename(wheel.with_name("whole-1-py3-none-any.whl"))

    with pytest.raises(Unreachable, match="no parts") as caught:
        RemoteFile(address.replace("/x-1", "/whole-1"))

    assert caught.value.hint


def test_a_page_in_the_place_of_a_wheel(wheel: Path, tmp_path: Path) -> None:
    """Behind an address or as a file."""
    page = tmp_path / "page.whl"
    page.write_text("<html>not found</html>")

    with pytest.raises(NoWheel, match="no wheel"):
        code_of(page, tmp_path)


def test_another_hash(wheel: Path, tmp_path: Path) -> None:
    """The index gives one hash, the file has another."""
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()

    assert code_of(wheel, tmp_path, sha256=right).libraries
    with pytest.raises(NoWheel, match="SHA-256"):
        code_of(wheel, tmp_path, sha256="0" * 64)
