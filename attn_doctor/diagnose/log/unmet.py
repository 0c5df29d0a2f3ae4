"""Takes out of what was scanned the texts that only facts allow to match, where the facts do not.

Such texts, as "has no attribute", stand everywhere: they must keep neither a more lenient look from being taken, nor a
failure from being told as unknown.
"""

from __future__ import annotations

from functools import partial

from attn_doctor.diagnose.log.join import join
from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.message_facts import of_match
from attn_doctor.diagnose.log.scan import Scanned
from attn_doctor.diagnose.log.weigh import weigh
from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact, FactSet


def drop_unmet(log: Scanned, base: FactSet) -> None:
    """Keeps the matches that need no facts, and those whose facts are in `base`, in the log or in the message."""
    if not any(match.pattern.only_with_facts for match in log.matches):
        return
    read = partial(list[Fact], log.clues.facts(log.name))
    facts = join(base, faults.survive("reading of what a log tells", read, lambda _reason: []))
    met: list[Match] = []
    for match in log.matches:
        if not match.pattern.only_with_facts:
            continue
        holds = partial(_holds, match, facts, log.name)
        if faults.survive(f'weighing of recipe "{match.recipe.id}"', holds, lambda _reason: False):
            met.append(match)
    kept = set(map(id, met))
    log.matches = [one for one in log.matches if not one.pattern.only_with_facts or id(one) in kept]
    if log.last_failure is not None and any(one.unit.message_line == log.last_failure[0] for one in met):
        log.last_failure = None


def _holds(match: Match, facts: FactSet, log: str) -> bool:
    own = tuple(of_match(match, log, facts))
    return weigh(match, join(facts, own) if own else facts, log) is not None
