"""Who is drained and who is resumed: for what was found, within the cap, and nobody else's nodes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fleet.quarantine import MARK, Moves, cap_of, moves
from attn_doctor.model.fleet import FleetVerdict
from tests.fleet.reports import found, report
from tests.fleet.test_verdict import fleet, verdict

EVERY = frozenset(f"n{number:02d}" for number in range(1, 11))


def ill() -> FleetVerdict:
    """n02 fails, n05 has another torch; n03 and the others are fit."""
    odd = {"n02": found(report("n02")), "n05": report("n05", **{"packages.torch": "2.12.1"})}
    return verdict(fleet(10, **odd))


def said(made: Moves) -> dict[str, str]:
    """Node -> reason; empty for a resume."""
    return {one.node: one.reason for one in made.todo}


def test_drained_for_what_was_found() -> None:
    """A finding, then a difference; fit nodes are left alone."""
    assert said(moves(ill(), {}, EVERY, cap=5)) == {
        "n02": f"{MARK}x-transformers-rotary-fp32",
        "n05": f"{MARK}differs: packages.torch 2.13.0+cu130 -> 2.12.1",
    }


def test_the_cap_counts_those_that_are_out() -> None:
    """What fails comes before what differs; the rest is said."""
    made = moves(ill(), {}, EVERY, cap=1)
    assert list(said(made)) == ["n02"]
    assert [node for node, _ in made.left] == ["n05"]
    already = moves(ill(), {"n09": f"{MARK}gpu-xid"}, EVERY - {"n09"}, cap=1)
    assert said(already) == {"n09": "", "n02": f"{MARK}x-transformers-rotary-fp32"}  # n09 is fit again: room


def test_nobody_elses_nodes() -> None:
    """What an admin drained stays as it is, ill or fit; what is down is not drained."""
    made = moves(ill(), {"n02": "bad fan", "n03": "bad fan"}, EVERY - {"n02", "n03", "n05"}, cap=5)

    assert said(made) == {}
    assert dict(made.left) == {"n02": "out already: bad fan", "n05": "takes no jobs now, or Slurm does not know it"}


def test_twice_is_once() -> None:
    """What was drained for this stays out, and is not drained again."""
    first = said(moves(ill(), {}, EVERY, cap=5))
    again = moves(ill(), first, EVERY - set(first), cap=5)

    assert again.todo == ()
    assert dict(again.out) == first


def test_old_reports_move_nobody() -> None:
    """Neither out nor back in."""
    made = moves(ill(), {"n03": f"{MARK}x"}, EVERY, cap=5, doubtful=frozenset({"n02", "n03"}))

    assert list(said(made)) == ["n05"]
    assert dict(made.out) == {"n03": f"{MARK}x"}


def test_what_most_nodes_have_is_the_environments() -> None:
    """Draining nodes for it would help nobody; a node with a trouble of its own beside it is drained for that."""
    nodes = [found(report(f"n{number:02d}")) for number in range(1, 11)]
    nodes[3] = found(nodes[3], "gpu-xid")
    made = moves(verdict(nodes), {}, EVERY, cap=5)

    assert said(made) == {"n04": f"{MARK}gpu-xid"}
    assert "10 of 10 nodes have x-transformers-rotary-fp32: mend the environment" in dict(made.left)["n01"]


@pytest.mark.parametrize(("written", "nodes", "cap"), [("2%", 1000, 20), ("2%", 10, 1), ("7", 10, 7), ("100%", 8, 8)])
def test_the_cap_is_a_number_or_a_share(written: str, nodes: int, cap: int) -> None:
    """Of a share at least one."""
    assert cap_of(written, nodes) == cap


@pytest.mark.parametrize("written", ["", "x", "-1", "200%", "1.5", "nan%"])
def test_no_number(written: str) -> None:
    """Refused in words by its caller."""
    with pytest.raises(ValueError, match=r"^"):
        cap_of(written, 10)


@given(
    st.sets(st.sampled_from(sorted(EVERY))), st.sets(st.sampled_from(sorted(EVERY))), st.integers(0, 12),
    st.integers(0, 10),
)  # fmt: skip
def test_never_more_than_the_cap(bad: set[str], out: set[str], cap: int, admins: int) -> None:
    """Whatever was found, whoever is out: with those that stay out, at most the cap; idempotent."""
    changes = {node: found(report(node)) for node in bad}
    answer = verdict(fleet(10, **changes), max_age=timedelta(days=1))
    drained = {node: ("fan" if int(node[1:]) <= admins else f"{MARK}x") for node in out}
    made = moves(answer, drained, EVERY - out, cap=cap)
    newly = {one.node for one in made.todo if not one.resume}

    assert len(newly) + len(made.out) <= max(cap, len(made.out))
    assert newly <= bad - out
    assert all(drained[one.node].startswith(MARK) and one.node not in bad for one in made.todo if one.resume)
    after = {node: reason for node, reason in drained.items() if node not in {one.node for one in made.todo}}
    after |= {one.node: one.reason for one in made.todo if not one.resume}
    assert not moves(answer, after, EVERY - set(after), cap=cap).todo
