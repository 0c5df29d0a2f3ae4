"""What a package calls today a name that it dropped; data in recipes/import/new_names.toml."""

from __future__ import annotations

from attn_doctor.recipes.shelf import table

TABLE = "import/new_names.toml"


def new_name(name: str) -> str | None:
    """The name in its place, or its new place; None where the table tells nothing of it."""
    names: dict[str, str] = table(TABLE)["new"]
    return names.get(name)
