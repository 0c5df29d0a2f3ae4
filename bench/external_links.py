"""`python bench/external_links.py [WORD...]`: asks once for every address outside of the project that README, docs and
recipes name.

Needs a network, which CI has not. Prints those that answer with 404 or 410, with the files that name them; the others
that do not answer are counted, since a machine may reach some hosts alone. Words choose the addresses that contain one
of them. Ends with 1 where one is dead.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ADDRESS = re.compile(r"https://[^\s\"'<>()\[\]`|]+[^\s\"'<>()\[\]`|.,;:]")
_DEAD = (404, 410)


def addresses() -> dict[str, list[str]]:
    """Address without its fragment -> the files that name it. Addresses with a place to fill in are left out."""
    found: dict[str, list[str]] = {}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.toml")]
    for page in sorted(pages):
        for address in dict.fromkeys(_ADDRESS.findall(page.read_text())):
            if not re.search(r"[{}$…]|\bOWNER\b|example\.|\.example", address):
                found.setdefault(address.partition("#")[0], []).append(str(page.relative_to(ROOT)))
    return found


def asked(address: str) -> str:
    """`there`, `dead` with the status, or why nothing is known."""
    request = urllib.request.Request(address, method="HEAD", headers={"User-Agent": "attn-doctor link check"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return "there"
    except urllib.error.HTTPError as error:
        return f"dead: {error.code}" if error.code in _DEAD else f"not known: status {error.code}"
    except OSError as error:
        return f"not known: {type(getattr(error, 'reason', error)).__name__}"


def main(words: list[str]) -> int:
    named = {one: files for one, files in addresses().items() if not words or any(word in one for word in words)}
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(named, pool.map(asked, named), strict=True))
    dead = {one: answer for one, answer in answers.items() if answer.startswith("dead")}
    for address, answer in dead.items():
        print(f"{address}  {answer}  in {', '.join(named[address])}")
    for answer, count in Counter(answers.values()).most_common():
        print(f"{count:5}  {answer}")
    return 1 if dead else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
