"""The transformers release from which a family of model classes has FlashAttention; data in
recipes/transformers/flash_since.toml.
"""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from attn_doctor.recipes.shelf import table

TABLE = "transformers/flash_since.toml"
_AFTER_THE_FAMILY = re.compile(r"(?=[A-Z]|$)")


def flash_since(model_class: str, installed: str | None) -> str | None:
    """The first release whose class of that name has it; None where the table does not tell, or where the installed
    release has it already: then the class is not transformers' own.
    """
    families: dict[str, str] = table(TABLE)["since"]
    fits = (
        name
        for name in sorted(families, key=len, reverse=True)
        if model_class.startswith(name) and _AFTER_THE_FAMILY.match(model_class, len(name))
    )
    name = next(fits, None)
    if name is None:
        return None
    try:
        return None if installed and Version(installed) >= Version(families[name]) else families[name]
    except InvalidVersion:
        return None
