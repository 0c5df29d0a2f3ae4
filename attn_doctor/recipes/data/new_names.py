"""What a package calls today a name that it dropped; data in recipes/import/new_names.toml."""

from __future__ import annotations

from attn_doctor.recipes.shelf import table

TABLE = "import/new_names.toml"


def new_name(distribution: str, name: str) -> str | None:
    """The name in its place, or its new place; None where the table tells nothing of it. A name that several packages
    have stands behind its distribution, as `numpy: product`.
    """
    names: dict[str, str] = table(TABLE)["new"]
    return names.get(f"{distribution}: {name}") or names.get(name)
