"""What the shelf says of releases, held against the package registry as pip is configured here: lists what is stale.

    python bench/stale_facts.py            minutes, and metadata alone
    python bench/stale_facts.py --quick    the newest releases, and not each pair of the tables

Looked at: the newest release of each package of recipes/checked.toml; every release of torch with the triton that it
asks for, and every pair, of recipes/torch/releases.toml; the wheels of recipes/flash-attn/wheels.toml (does the index
have a newer flash-attn?); the bounds of `affected` (`fixed` that no release has reached yet, `looked_at` behind the
newest release); remedies whose requirement nothing meets; recipes that nobody looked at for half a year.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from attn_doctor.model.remedies import Advise, InstallPackages
from attn_doctor.recipes.data import checked
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.recipe import Affected, AnyOf, Condition, Recipe
from attn_doctor.recipes.shelf import bundled

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Pythons that are asked for, newest first: an old release has no wheel for a new one.
PYTHONS = ("3.12", "3.11", "3.10")
PLATFORMS = [
    word
    for one in ("2_34", "2_28", "2_27", "2_17", "2_5")
    for word in ("--platform", f"manylinux_{one}_x86_64")
] + ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]  # fmt: skip


@cache
def releases(name: str) -> tuple[Version, ...]:
    """Every release that is no development version, newest first; empty where the registry has none."""
    done = _pip("index", "versions", name, "--pre", "--python-version", PYTHONS[0])
    line = next((one for one in done.splitlines() if one.startswith("Available versions:")), "")
    found = (Version(one.strip()) for one in line.partition(":")[2].split(",") if one.strip())
    return tuple(one for one in found if not one.is_devrelease)


@cache
def requires(name: str, version: str) -> tuple[str, ...] | None:
    """Requires-Dist of one release; None where no wheel of it was found."""
    for python in PYTHONS:
        with tempfile.TemporaryDirectory(prefix="stale-facts-") as scratch:
            report = Path(scratch) / "report.json"
            _pip("install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--only-binary", ":all:",
                 "--python-version", python, *PLATFORMS, "--target", scratch, "--report", str(report),
                 f"{name}=={version}")  # fmt: skip
            if report.is_file():
                (item,) = json.loads(report.read_text())["install"]
                return tuple(item["metadata"].get("requires_dist") or ())
    return None


def _pip(*words: str) -> str:
    line = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout


def newest(name: str) -> Version | None:
    """The newest release; a prerelease only where there is nothing else."""
    every = releases(name)
    return next((one for one in every if not one.is_prerelease), every[0] if every else None)


def of_checked() -> Iterator[str]:
    """Packages with a release that nobody looked through the shelf for."""
    for package, limit in checked.newest_checked().items():
        there = newest(package)
        if there is None:
            yield f"checked.toml: {package}: the registry has no release"
        elif checked.is_newer(package, str(there)):
            yield f"checked.toml: {package} {there} is newer than {limit}"


def of_torch(*, quick: bool) -> Iterator[str]:
    """Releases of torch and of its partners that the table lacks or pairs wrongly."""
    table = tomllib.loads((bundled_folder() / "torch" / "releases.toml").read_text())
    known = {one for row in table["release"] for one in row["versions"]}
    for release in releases("torch"):
        if not release.is_prerelease and release >= Version("2.4") and str(release) not in known:
            yield f"torch/releases.toml: torch {release} is not in it"
    for partner in table["partner"]:
        package, rows = partner["package"], partner["for"]
        listed = {Version(row["release"]) for row in rows}
        latest = newest(package)
        if latest is not None and latest > max(listed):
            yield f"torch/releases.toml: {package} {latest} is newer than {max(listed)}"
        for row in rows[:2] if quick else rows:
            asked = _of(requires(package, row["release"]), "torch")
            if asked is None:
                continue  # no wheel for these Pythons, or it asks for no torch
            exact = [str(one) for one in known if SpecifierSet(row["torch"]).contains(one)]
            wrong = [one for one in exact if not asked.contains(one)]
            if wrong:
                yield f"torch/releases.toml: {package} {row['release']} asks for torch{asked}, not {', '.join(wrong)}"


def _of(texts: tuple[str, ...] | None, name: str) -> SpecifierSet | None:
    for text in texts or ():
        one = Requirement(text)
        if canonicalize_name(one.name) == name and "extra" not in str(one.marker or ""):
            return one.specifier
    return None


def of_wheels() -> Iterator[str]:
    """A flash-attn release that the table of published wheels does not speak of."""
    table = (bundled_folder() / "flash-attn" / "wheels.toml").read_text()
    for release in releases("flash-attn"):
        if release >= Version("2.8") and f'"{release}"' not in table and f"{release} has no wheel" not in table:
            yield f"flash-attn/wheels.toml: {release} is not in it"


def of_bounds(recipes: tuple[Recipe, ...]) -> Iterator[str]:
    """Ranges that end where no release is, or before the newest one."""
    for recipe in recipes:
        for one in _affected(recipe.when):
            package = "torch" if one.fact.kind == "torch" else one.fact.subject
            if one.fact.attribute != "version" or not package:
                continue
            there = newest(package)
            if there is None:
                continue
            if one.fixed and Version(one.fixed) > there:
                yield f"{recipe.id}: {package} {one.fixed}, in which it is fixed, is newer than the newest ({there})"
            if one.looked_at and there > Version(one.looked_at):
                yield f"{recipe.id}: {package} {there} is out, looked at up to {one.looked_at}"


def _affected(conditions: tuple[Condition, ...]) -> Iterator[Affected]:
    for condition in conditions:
        for question in condition.questions if isinstance(condition, AnyOf) else (condition,):
            if isinstance(question, Affected):
                yield question


def of_requirements(recipes: tuple[Recipe, ...]) -> Iterator[str]:
    """Requirements of remedies that no release meets."""
    asked: dict[str, set[str]] = {}
    for recipe in recipes:
        for remedy in recipe.remedies:
            for action in remedy.actions:
                for text in action.requirements if isinstance(action, InstallPackages | Advise) else ():
                    if "{" not in text:
                        asked.setdefault(text, set()).add(recipe.id)
    for text, ids in sorted(asked.items()):
        try:
            one = Requirement(text)
        except InvalidRequirement:
            yield f"{', '.join(sorted(ids))}: {text} is no requirement"
            continue
        if not any(one.specifier.contains(release, prereleases=True) for release in releases(one.name)):
            yield f"{', '.join(sorted(ids))}: no release meets {text}"


def of_dates(recipes: tuple[Recipe, ...]) -> Iterator[str]:
    """Recipes that nobody looked at for half a year."""
    limit = date.today() - timedelta(days=183)
    for recipe in recipes:
        if date.fromisoformat(recipe.checked) < limit:
            yield f"{recipe.id}: checked on {recipe.checked}"


def main() -> int:
    """Prints what is stale, and ends with 1 where something is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rows of each table of pairs")
    quick = parser.parse_args().quick
    recipes = bundled()
    if newest("torch") is None:
        print("the package registry does not answer: nothing could be looked at")
        return 3
    found = 0
    for part in (of_checked(), of_torch(quick=quick), of_wheels(), of_bounds(recipes), of_requirements(recipes),
                 of_dates(recipes)):  # fmt: skip
        for line in part:
            found += 1
            print(line, flush=True)
    print(f"{found} stale" if found else "nothing is stale")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
