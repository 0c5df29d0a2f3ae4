"""Builds a release, checks it as a user would meet it, and tags it: `python scripts/release.py [--tag]`.

Publishes nothing: uploading is a person's act. Steps, each of which ends the script when it fails:

1. the checkout is clean and the version stands in CHANGELOG.md with a date;
2. sdist and wheel are built in dist/, and `twine check --strict` accepts both;
3. each of the two is installed into a fresh environment and answers `--version`, `recipes list` and `check --quick`;
4. with --tag, an annotated tag `vX.Y.Z` is made.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


class NotReleasable(Exception):
    """Says what is in the way of a release."""


def version() -> str:
    """The version that attn_doctor/version.py spells."""
    spelled = re.search(r'__version__ = "([^"]+)"', (ROOT / "attn_doctor" / "version.py").read_text())
    if spelled is None:
        raise NotReleasable("attn_doctor/version.py spells no __version__")
    return spelled[1]


def require_dated_changelog(text: str, released: str) -> None:
    """Raises NotReleasable unless the changelog has a heading `## [X.Y.Z] - YYYY-MM-DD` for this version."""
    heading = rf"^## \[{re.escape(released)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, text, re.MULTILINE):
        raise NotReleasable(f"CHANGELOG.md has no dated heading for {released}: ## [{released}] - YYYY-MM-DD")


def require_clean_checkout() -> None:
    """Raises NotReleasable where git knows of changes that are not committed."""
    changed = run(["git", "status", "--porcelain"]).strip()
    if changed:
        raise NotReleasable(f"the checkout has changes that are not committed:\n{changed}")


def run(command: list[str], *, folder: Path = ROOT) -> str:
    """Runs a command and gives what it printed; raises NotReleasable with its last lines when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise NotReleasable(f"{' '.join(command)} ended with {done.returncode}:\n{last}")
    return done.stdout


def build() -> tuple[Path, ...]:
    """The sdist and the wheel, built anew in dist/ and accepted by twine."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)])
    built = tuple(sorted(DIST.iterdir()))
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, built)])
    return built


def try_in_a_fresh_environment(file: Path, released: str) -> None:
    """Installs one file into an environment of its own, away from the checkout, and uses it."""
    with tempfile.TemporaryDirectory(prefix="attn-doctor-release-") as folder:
        home = Path(folder)
        venv.EnvBuilder(with_pip=True).create(home / "env")
        binaries = home / "env" / "bin"
        run([str(binaries / "python"), "-m", "pip", "install", "--quiet", str(file)], folder=home)
        doctor = str(binaries / "attn-doctor")
        said = run([doctor, "--version"], folder=home).strip()
        if said != f"attn-doctor {released}":
            raise NotReleasable(f"{file.name} says {said!r}, not the version {released}")
        if not run([doctor, "recipes", "list"], folder=home).strip():
            raise NotReleasable(f"{file.name} holds no recipes")
        run([doctor, "check", "--quick", "--exit-zero", "--python", sys.executable], folder=home)


def tag(released: str) -> None:
    """An annotated tag of the current commit."""
    run(["git", "tag", "--annotate", f"v{released}", "--message", f"attn-doctor {released}"])


def main(arguments: list[str], say: Callable[[str], None] = print) -> int:
    """Gives the exit status: 0 when everything holds, 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", action="store_true", help="tag the commit when everything holds")
    wanted = parser.parse_args(arguments)
    try:
        released = version()
        require_clean_checkout()
        require_dated_changelog((ROOT / "CHANGELOG.md").read_text(), released)
        for file in build():
            say(f"built {file.name}")
            try_in_a_fresh_environment(file, released)
            say(f"installs and runs: {file.name}")
        if wanted.tag:
            tag(released)
            say(f"tagged v{released}")
    except NotReleasable as reason:
        print(f"no release: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
