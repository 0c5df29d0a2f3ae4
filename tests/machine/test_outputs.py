"""Nobody makes attn-doctor write where they want: links and files of other users, in folders where they may write."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fix.journal import journal
from attn_doctor.machine import files, outputs
from tests.conftest import Doctor, Environment

OTHER, THIRD = 61001, 61002
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can lay files of other users")


@contextlib.contextmanager
def as_user(uid: int) -> Iterator[None]:
    """What is done inside is done by that user."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder like /tmp, that every user can reach."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/tmp"):
            with contextlib.suppress(OSError):
                above.chmod(stat.S_IMODE(above.stat().st_mode) | 0o111)
    folder = tmp_path / "public"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of ours that must stay as it is."""
    file = tmp_path / "secret"
    file.write_text("mine")
    return file


def lay(link: Path, target: Path, uid: int) -> None:
    """A link of another user."""
    link.symlink_to(target)
    os.lchown(link, uid, uid)


class TestRootInAFolderLikeTmp:
    """What another user laid there."""

    pytestmark = root_only

    @pytest.mark.parametrize("chosen", [True, False])
    def test_a_link(self, public: Path, secret: Path, chosen: bool) -> None:
        """It is neither followed nor taken away."""
        lay(public / "report.json", secret, OTHER)

        with pytest.raises(BadInput, match="it is a link that user 61001 laid there"):
            files.replace_file(public / "report.json", "new", chosen=chosen)

        assert secret.read_text() == "mine"
        assert (public / "report.json").is_symlink()
        assert sorted(path.name for path in public.iterdir()) == ["report.json"]

    def test_a_link_that_leads_nowhere_yet(self, public: Path, tmp_path: Path) -> None:
        """Nothing is made where it leads."""
        lay(public / "report.json", tmp_path / "new", OTHER)

        with pytest.raises(BadInput):
            files.replace_file(public / "report.json", "new")
        assert not (tmp_path / "new").exists()

    def test_a_link_on_the_way(self, public: Path, tmp_path: Path) -> None:
        """A folder's name may be a link as well."""
        (tmp_path / "ours").mkdir()
        lay(public / "reports", tmp_path / "ours", OTHER)

        for write in (
            lambda: files.replace_file(public / "reports" / "report.json", "new"),
            lambda: files.check_output(public / "reports" / "report.json"),
            lambda: files.check_folder(public / "reports", make=True, flag="--output"),
            lambda: files.check_folder(public / "reports" / "deeper", make=True, flag="--output"),
        ):
            with pytest.raises(BadInput, match="user 61001"):
                write()
        assert list((tmp_path / "ours").iterdir()) == []

    def test_a_file(self, public: Path) -> None:
        """As the kernel has it for everybody else: what lies in such a folder is its owner's."""
        (public / "report.json").write_text("theirs")
        os.chown(public / "report.json", OTHER, OTHER)

        with pytest.raises(BadInput, match="it is a file of user 61001"):
            files.replace_file(public / "report.json", "new")
        assert (public / "report.json").read_text() == "theirs"

    def test_a_pipe(self, public: Path) -> None:
        """Nothing is written into it."""
        os.mkfifo(public / "report.json")
        os.chown(public / "report.json", OTHER, OTHER)

        with pytest.raises(BadInput, match="user 61001"):
            files.replace_file(public / "report.json", "new")

    def test_a_link_in_their_own_folder(self, tmp_path: Path, secret: Path) -> None:
        """Root follows only root's links."""
        (tmp_path / "home").mkdir()
        os.chown(tmp_path / "home", OTHER, OTHER)
        lay(tmp_path / "home" / "report.json", secret, OTHER)

        with pytest.raises(BadInput, match="user 61001"):
            files.replace_file(tmp_path / "home" / "report.json", "new")
        assert secret.read_text() == "mine"

    def test_a_journal(self, public: Path) -> None:
        """What is put back comes from there: it is not somebody else's."""
        (public / ".attn-doctor").mkdir()
        os.chown(public / ".attn-doctor", OTHER, OTHER)

        with pytest.raises(journal.JournalUnusable, match="another user's"), journal.held((public,)):
            pass

    def test_the_whole_command(self, doctor: Doctor, environment: Callable[..., Environment], public: Path) -> None:
        """Refused before anything is examined; each way to write."""
        secret = public.parent / "secret"
        secret.write_text("mine")
        for name in ("report.json", "metrics.prom"):
            lay(public / name, secret, OTHER)
        python = environment().python
        whole = doctor("check", "--quick", "--json", "--python", python)
        node, identity = whole.report["node"]["name"], whole.report["environment"]["id"]
        (public / "reports").mkdir()
        (public / "reports").chmod(0o1777)
        lay(public / "reports" / f"{node}.{identity}.json", secret, OTHER)

        for options, status in (
            (("--output", public / "report.json"), 2),
            (("--prometheus", public / "metrics.prom"), 2),
            (("--output", f"{public}/reports/"), 3),
        ):
            run = doctor("check", "--quick", "--python", python, *options)
            assert run.status == status, run.stderr
            assert "user 61001" in run.stderr
            assert "Traceback" not in run.stderr
        assert secret.read_text() == "mine"


class TestAUserInAFolderLikeTmp:
    """The same without root's rights."""

    pytestmark = root_only

    def test_another_s_link_is_refused_and_one_s_own_followed(self, public: Path) -> None:
        """Two users; root's links are trusted too."""
        mine = public / "mine"
        mine.mkdir()
        os.chown(mine, OTHER, OTHER)
        lay(public / "a", mine / "file", THIRD)
        lay(public / "b", mine / "file", OTHER)
        lay(public / "c", mine / "file", 0)

        with as_user(OTHER):
            with pytest.raises(BadInput, match="user 61002"):
                files.replace_file(public / "a", "no")
            files.replace_file(public / "b", "yes")
            assert (mine / "file").read_text() == "yes"
            files.replace_file(public / "c", "again")
            assert (mine / "file").read_text() == "again"
        assert (public / "b").is_symlink()


def test_one_s_own_link(tmp_path: Path) -> None:
    """A name that a person typed leads where their link leads; a name that was chosen stands for itself."""
    (tmp_path / "target").write_text("old")
    (tmp_path / "typed").symlink_to("target")
    (tmp_path / "chosen").symlink_to("target")

    files.replace_file(tmp_path / "typed", "new")
    files.replace_file(tmp_path / "chosen", "other", chosen=True)

    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "typed").is_symlink()
    assert not (tmp_path / "chosen").is_symlink()
    assert (tmp_path / "chosen").read_text() == "other"


def test_a_link_that_is_swapped_in_between(tmp_path: Path) -> None:
    """The folder is held: what its name leads to afterwards changes nothing."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "elsewhere").mkdir()

    with outputs.opened(tmp_path / "ours" / "report") as place:
        (tmp_path / "ours").rename(tmp_path / "moved")
        (tmp_path / "ours").symlink_to("elsewhere")
        place.write(b"text", mode=None)

    assert (tmp_path / "moved" / "report").read_text() == "text"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_modes_and_dots_and_rings(tmp_path: Path) -> None:
    """The old mode stays; `..` is where the folder lies; a ring of links is refused in words."""
    (tmp_path / "deep/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/inner")
    files.replace_file(tmp_path / "link" / ".." / "file", "text")
    (tmp_path / "deep/file").chmod(0o640)
    files.replace_file(tmp_path / "deep/file", "more")

    assert stat.S_IMODE((tmp_path / "deep/file").stat().st_mode) == 0o640
    assert (tmp_path / "deep/file").read_text() == "more"

    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(BadInput, match="symbolic links"):
        files.replace_file(tmp_path / "one", "text")


@pytest.mark.process
@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name(target: str) -> None:
    """A pipe behind a link of the kernel's is written into."""
    code = "from pathlib import Path; from attn_doctor.machine.files import replace_file; "
    code += f"replace_file(Path({target!r}), 'text')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("text", "")
