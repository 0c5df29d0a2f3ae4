"""No line makes a pattern take for ever: each pattern of the shelf, and the engine's own, against lines made to."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as TooLong

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.lines import PIECE
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from attn_doctor.recipes.literals import required

pytestmark = pytest.mark.process

#: Linear patterns take a millisecond for such a line, exponential ones until the sun goes out.
LIMIT = 60.0

#: What the engine itself looks for, over and over, and then not quite.
NEARLY = (
    'File "', 'File "a", line ', ", line 1, in ", "a.py:1: in ", "Cell In", "Traceback (most recent call last)",
    "Error", "aError", "A.b", "a.", "^~", "...<1 lines>", "[Previous line", "a:1: ", "Warning", "UserWarning:",
    "a(1): error",
    "ptxas-", "clang", "/ld", "undefined symbol", "Assertion ", "x86_64-", "frame #1", "`a` is not", "1%|", "| 1 [",
    "[rank1]: ", "(pid=1) ", "1: ", "2026-11-21 10:00:00 ", "[2026-11-21 ", "INFO ", "I1121 ", "a-1  | ", "- ", "│ ",
    "C:\\a\\", "a\\b", "\\", "c10::", "struct ", "compute capability ", "NVIDIA RTX ", "torch 2.3.", "flash_attn-",
    "q: torch.float", "query.dtype: ", "libcuda.so.1", "/a/b.so", "a/b.cu:1", "version ", "1.2.", "Hardware limit: ",
    "\x1b[", "\x1b]", "\\n", "é", "（",
)  # fmt: skip


def lines(pattern: str) -> list[str]:
    """Lines that hold what the pattern looks for, over and over, and then not quite."""
    texts = [text for literal in required(pattern) for text in (literal, literal[:-1])] or ["a"]
    plain = re.sub(r"\\[.]|[^\w :/.,'()-]", "", pattern)[:80] or "a"
    fillers = [*texts[:6], plain, "a", " ", "a ", "/a", ".", "1", "1.", "(", "[rank", "x=", "\\", "torch.", "'"]
    return [(filler * (PIECE // len(filler) + 1))[:PIECE] + tail for filler in fillers for tail in ("\n", "!")]


def explain_all(_: list[str]) -> int:
    tried = 0
    for nearly in NEARLY:
        for tail in ("", "!", " x\n" * 50):
            text = (nearly * (PIECE // len(nearly) + 1))[:PIECE] + tail
            explain_text(text, (), FactSet())
            tried += 1
    return tried


def search_all(patterns: list[str]) -> int:
    tried = 0
    for pattern in patterns:
        compiled = re.compile(pattern, re.MULTILINE)
        for line in lines(pattern):
            compiled.search(line)
            tried += 1
    return tried


def patterns_of_the_shelf() -> list[str]:
    """Each once: the same `unless` stands beside many."""
    every = {
        text: None
        for recipe in shelf.bundled()
        for log in recipe.logs
        for text in (log.pattern, log.unless, log.nearby, log.unless_nearby)
        if text
    }
    return [*every]


def in_time(work: Callable[[list[str]], int], patterns: list[str]) -> int:
    """Searches in a process that can be ended: a search that hangs answers to nobody."""
    pool = ProcessPoolExecutor(1)
    try:
        return pool.submit(work, patterns).result(LIMIT)
    except TooLong:
        for process in pool._processes.values():
            process.kill()
        pytest.fail("a pattern takes for ever")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def test_every_recipe_s_pattern_is_quick() -> None:
    """On lines that hold its literals again and again."""
    assert in_time(search_all, patterns_of_the_shelf()) > 1000


def test_the_engine_s_own_patterns_are_quick() -> None:
    """Prefixes, frames, messages, versions."""
    assert in_time(explain_all, []) > 100


def test_every_recipe_s_pattern_has_literals() -> None:
    """Without one, a large log could not be looked through for it."""
    assert [log.pattern for recipe in shelf.bundled() for log in recipe.logs if not required(log.pattern)] == []
