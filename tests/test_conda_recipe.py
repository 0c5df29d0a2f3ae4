"""conda/recipe.yaml says what pyproject.toml says: version, Python, what it needs, its command; and no torch."""

from __future__ import annotations

import re
import sys
from typing import Any

import yaml
from packaging.requirements import Requirement

from attn_doctor.version import __version__
from tests.conftest import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_it_follows_pyproject() -> None:
    """A dependency that is added there is missing here at once."""
    project: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((CHECKOUT / "conda" / "recipe.yaml").read_text())
    needs = [Requirement(one) for one in project["project"]["dependencies"]]
    python = f"python {project['project']['requires-python']}"
    backend = Requirement(project["build-system"]["requires"][0])

    assert recipe["context"]["version"] == __version__
    assert recipe["requirements"]["run"] == [python, *(f"{one.name} {one.specifier}" for one in needs)]
    assert recipe["requirements"]["host"] == [python, "pip", f"{backend.name} {backend.specifier}"]
    assert "torch" not in {re.split(r"\W", one)[0] for one in recipe["requirements"]["run"]}
    (command,) = project["project"]["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    assert recipe["about"]["license"] == project["project"]["license"]
    assert (CHECKOUT / recipe["about"]["license_file"]).is_file()
