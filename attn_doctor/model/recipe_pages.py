"""The address of the page that the site of docs/ has for a recipe (docs/site_pages.py makes it)."""

from __future__ import annotations

from typing import Protocol

#: The address that the site is published at, with a slash at its end; empty while it is published nowhere. Nothing else
#: holds it: mkdocs takes it from here (docs/site_pages.py).
SITE = ""
#: The folder of the site with a page for each recipe and family of the shelf.
FOLDER = "errors"
#: What the origin of a recipe begins with that is on the shelf; others have no page.
_BUNDLED = "bundled "


class _OfARecipe(Protocol):
    """A recipe, or a finding made of one."""

    @property
    def id(self) -> str: ...
    @property
    def origin(self) -> str: ...


def has_page(one: _OfARecipe) -> bool:
    """Whether the site has a page for it."""
    return one.origin.startswith(_BUNDLED)


def address(one: _OfARecipe) -> str | None:
    """The page's address; None while the site is published nowhere, and for a recipe that is not of the shelf."""
    return f"{SITE}{FOLDER}/{one.id}/" if SITE and has_page(one) else None
