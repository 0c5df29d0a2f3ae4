"""A package index that is broken, refuses, or does not give what it names: one clear message each.

uv asks a simple index that this process serves; nothing else is reached.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attn_doctor.errors import AttnDoctorError
from attn_doctor.model.stack import StackAnswer
from attn_doctor.stack.proof.wheel_code import NoWheel
from attn_doctor.stack.resolver import CannotResolve
from attn_doctor.workflows.plan import PlanRequest, plan

pytestmark = pytest.mark.process

NO_ZIP = b"<html>sorry</html>"


def wheel(name: str, version: str) -> bytes:
    """A wheel with a compiled library that is none."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        info = f"{name}-{version}.dist-info"
        archive.writestr(f"{name}/_C.so", b"\x7fELF no library")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n")
        archive.writestr(f"{info}/RECORD", "")
    return packed.getvalue()


class Index:
    """A simple index of wheels."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str, bytes]] = {}

    def add(self, name: str, *, data: bytes | None = None, sha256: str = "", yanked: str = "") -> None:
        """A package with one release, 1.0 (torch: 2.13.0)."""
        version = "2.13.0" if name == "torch" else "1.0"
        file = f"{name}-{version}-cp312-cp312-manylinux_2_28_x86_64.whl"
        content = wheel(name, version) if data is None else data
        sha256 = sha256 or hashlib.sha256(content).hexdigest()
        mark = f' data-yanked="{yanked}"' if yanked else ""
        page = f'<!DOCTYPE html><html><body><a href="/f/{file}#sha256={sha256}"{mark}>{file}</a></body></html>'
        self.answers[f"/f/{file}"] = (200, "application/octet-stream", content)
        self.answers[f"/simple/{name}/"] = (200, "text/html", page.encode())


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    served = Index()
    served.add("torch")
    served.add("sound")
    served.add("nozip", data=NO_ZIP)
    served.add("withdrawn", yanked="wrong metadata")
    served.add("swapped", sha256="0" * 64)
    served.answers |= {
        "/simple/failing/": (500, "text/html", b"oops"),
        "/simple/secret/": (403, "text/html", b"no"),
        "/simple/portal/": (200, "application/vnd.pypi.simple.v1+json", b"<html>log in first</html>"),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = served.answers.get(self.path, (404, "text/plain", b""))
            told = re.fullmatch(r"bytes=(-?)(\d+)(?:-(\d*))?", self.headers.get("Range", ""))
            headers = {"Content-Type": kind}
            if told and status == 200:
                first = max(len(body) - int(told[2]), 0) if told[1] else int(told[2])
                last = min(int(told[3]) if told[3] else len(body) - 1, len(body) - 1)
                headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                status, body = 206, body[first : last + 1]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    thread.join()


@pytest.fixture
def asked(
    index: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., StackAnswer]:
    monkeypatch.setenv("UV_DEFAULT_INDEX", index)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))

    def ask(*wants: str, prove: bool = False) -> StackAnswer:
        request = PlanRequest(
            wants=("torch==2.13.0", *wants), gpu="h100", python="3.12", glibc="2.35", machine="x86_64", prove=prove
        )
        return plan(request)

    return ask


@pytest.mark.parametrize(
    ("want", "says"),
    [
        ("failing", r"the package index failed \(500"),
        ("secret", r"the package index refused to answer \(403"),
        ("portal", "the package index gave an answer that is none"),
    ],
)
def test_a_broken_index(asked: Callable[..., StackAnswer], want: str, says: str) -> None:
    """No plan is said to be impossible because an index is broken."""
    with pytest.raises(CannotResolve, match=says) as caught:
        asked(want)
    assert not caught.value.is_conflict
    assert "--offline" in caught.value.hint


def test_an_index_that_is_not_there(asked: Callable[..., StackAnswer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(AttnDoctorError, match="could not ask the package index") as caught:
        asked("sound")
    assert "secret" not in str(caught.value.about)


@pytest.mark.parametrize(
    ("want", "says"),
    [
        ("withdrawn", r"withdrawn==1\.0 was yanked \(reason: wrong metadata\)"),
        ("nozip", r"nozip==1\.0 has an invalid package format"),
        ("nowhere", "nowhere was not found in the package registry"),
    ],
)
def test_what_an_index_does_not_give(asked: Callable[..., StackAnswer], want: str, says: str) -> None:
    (clash,) = asked(want).clashes
    assert re.search(says, clash.words)
    assert "No solution" not in clash.words


def test_a_yanked_release_that_is_asked_for_is_marked(asked: Callable[..., StackAnswer]) -> None:
    (first,) = asked("withdrawn==1.0").plans
    assert "withdrawn 1.0 is yanked: wrong metadata" in first.notes[0]


def test_wheels_are_held_against_the_hash_of_the_index(asked: Callable[..., StackAnswer]) -> None:
    """Where they are opened; what was read is counted."""
    with pytest.raises(NoWheel, match="SHA-256 is not the one that the index gives"):
        asked("swapped", prove=True)
    answer = asked("sound", prove=True)
    assert answer.downloaded > 0
    assert "_C.so" in answer.plans[0].releases[1].proof


def test_the_settings_of_pip_are_handed_on(
    asked: Callable[..., StackAnswer], index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file that pip reads, unless uv has an index of its own."""
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    file = tmp_path / "pip.conf"
    file.write_text(f"[global]\nindex-url = {index}\n")
    for name in [one for one in os.environ if one.startswith(("PIP_", "UV_")) and one != "UV_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    answer = asked("sound")
    assert answer.plans, answer.clashes
    assert answer.plans[0].releases[1].url.startswith(index.removesuffix("/simple"))
