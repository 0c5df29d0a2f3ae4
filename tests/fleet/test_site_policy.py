"""A site's policy: what gates, what is lived with, thresholds, by partition; the built-in table is the default."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose import fingerprint as traits
from attn_doctor.formats import policy_toml
from attn_doctor.model.findings import Acceptance, Gate
from attn_doctor.model.fingerprint import FAMILIES, NAMES, TABLE, Importance, importance
from attn_doctor.model.fleet import State
from attn_doctor.model.policy import SLOWER, THRESHOLDS, FactWeight, Policy, Threshold
from attn_doctor.recipes.data import accepted
from tests.fleet.reports import FACTS, found, report
from tests.fleet.test_verdict import NOW, verdict

_NAMES = st.sampled_from(["rdma_rate", "driver", "packages.torch", "packages.numpy", "nic_pcie", "env.OUR_X", "iommu"])


def weight(pattern: str, how: Importance, **more: str) -> FactWeight:
    return FactWeight(pattern=pattern, importance=how, reason="ours", **more)


def fleet(count: int = 6, partition: str = "h100", **odd: Any) -> list[dict[str, Any]]:
    """Equal nodes, and n01, which has these facts."""
    nodes = [report(f"n{number:02d}", **(odd if number == 1 else {})) for number in range(1, count + 1)]
    for one in nodes:
        one["cohort"]["partition"] = partition
    return nodes


def state(reports: list[dict[str, Any]], policy: Policy, node: str = "n01") -> State:
    return verdict(reports, policy=policy).states[node]


def test_without_a_policy_it_is_the_table() -> None:
    """What nobody changed is as it was."""
    for name in (*NAMES, "packages.torch", "packages.numpy", "env.NCCL_DEBUG", "new_fact"):
        assert Policy().importance(name) is importance(name)
    assert {name: Policy().threshold(name) for name in THRESHOLDS} == {
        name: value for name, (value, _) in THRESHOLDS.items()
    }


def test_every_fact_of_a_fingerprint_can_be_named() -> None:
    """The names that a policy may use are those that fingerprints have."""
    made = {*traits._PLAIN, *traits._OF_HOST, *traits._COUNTED, "python", "compute_capability", "gpu"}

    assert made == set(NAMES)
    assert {family.partition(".")[0] for family in traits._FAMILIES} == set(FAMILIES)


def test_a_benign_difference_that_gates_here() -> None:
    """Another driver is benign, unless a site says that it is not; in another partition it stays so."""
    reports = fleet(driver="570.86.10")

    assert state(reports, Policy()) is State.FIT
    assert state(reports, Policy(weights=(weight("driver", Importance.CRITICAL),))) is State.DRIFTS
    elsewhere = Policy(weights=(weight("driver", Importance.CRITICAL, partition="a100*"),))
    assert state(reports, elsewhere) is State.FIT
    assert state(fleet(partition="a100-40", driver="570.86.10"), elsewhere) is State.DRIFTS


def test_a_critical_difference_that_is_lived_with() -> None:
    """Until it expires; and what is ignored is not even listed."""
    reports = fleet(**{"packages.triton": "3.5.0"})
    lived = Policy(weights=(weight("packages.triton", Importance.BENIGN, expires=NOW.date().isoformat()),))
    past = Policy(
        weights=(weight("packages.triton", Importance.BENIGN, expires=(NOW.date() - timedelta(days=1)).isoformat()),)
    )
    ignored = Policy(weights=(weight("packages.*", Importance.IGNORED),))

    assert state(reports, Policy()) is State.DRIFTS
    assert state(reports, lived) is State.FIT
    assert state(reports, past) is State.DRIFTS
    answer = verdict(reports, policy=ignored)
    assert answer.states["n01"] is State.FIT
    assert not answer.cohorts[0].benign


def test_findings_are_raised_and_accepted_at_the_merge() -> None:
    """The nodes need not know the policy; without an error left, a node that ended with 1 is fit."""
    reports = fleet()
    reports[0] = found(reports[0], "driver-old", "warning")
    reports[1] = found(reports[1], "torch-broken", "error")
    gates = Policy(gates=(Gate(id="driver-old", reason="ours", partition="h*"),))
    lives = Policy(acceptances=(Acceptance(id="torch-broken", reason="ours", expires=""),))

    assert (state(reports, Policy()), state(reports, gates)) == (State.FIT, State.FAILS)
    assert (state(reports, Policy(), "n02"), state(reports, lives, "n02")) == (State.FAILS, State.FIT)


def test_an_acceptance_of_one_subject_is_the_nodes_own() -> None:
    """A fleet does not see subjects: such an entry accepts nothing here."""
    reports = [found(report("n01"), "torch-broken", "error"), report("n02")]
    policy = Policy(acceptances=(Acceptance(id="torch-broken", reason="ours", expires="", subject="gpu 0"),))

    assert state(reports, policy) is State.FAILS


def test_slower_than_its_peers_can_gate() -> None:
    """Nobody is unfit for it unless the site says so; the threshold is the site's."""
    reports = fleet(8)
    for number, one in enumerate(reports):
        reached = 0.45 if number == 0 else 0.60 + 0.001 * number
        cell = {"backend": "flash-attn", "dtype": "bf16", "direction": "forward", "share": {"of_matmul": reached}}
        one["kernels"] = {"cells": [cell]}
    gate = Policy(gates=(Gate(id=SLOWER, reason="ours"),))
    patient = Policy(gates=gate.gates, thresholds=(Threshold(name="slow-kernel-percent", value=40, partition="h100"),))

    assert state(reports, Policy()) is State.FIT
    assert state(reports, gate) is State.FAILS
    assert state(reports, patient) is State.FIT


@pytest.mark.parametrize(("partition", "fit"), [("", State.UNSURE), ("h100", State.UNSURE), ("other", State.FIT)])
def test_ages_by_partition(partition: str, fit: State) -> None:
    """A report of six hours is too old where a site says so."""
    reports = fleet()
    for one in reports:
        one["created"] = (NOW - timedelta(hours=6)).isoformat()
    policy = Policy(thresholds=(Threshold(name="max-age-days", value=0.1, partition=partition),))

    answer = verdict(reports, policy=policy, age_decides=True)

    assert answer.states["n01"] is fit
    assert verdict(reports, policy=policy).states["n01"] is State.FIT


def test_what_is_printed_is_what_holds(tmp_path: Path) -> None:
    """The built-in policy, read back from what `fleet policy` prints, weighs every fact as before."""
    file = tmp_path / "policy.toml"
    file.write_text(policy_toml.dumps(Policy()))

    read = accepted.policy(file)

    stars = {pattern.replace("*", "x") for _, patterns in TABLE for pattern in patterns}
    for name in {*NAMES, *FACTS, *stars, "packages.new", "a_new_fact", "env.NCCL_NEW"}:
        assert read.importance(name) is importance(name), name
    assert {name: read.threshold(name) for name in THRESHOLDS} == {name: one for name, (one, _) in THRESHOLDS.items()}


_ENTRY = st.builds(
    weight,
    st.sampled_from(["driver", "rdma_*", "packages.*", "packages.torch", "env.OUR_*", "*", "nic_pcie"]),
    st.sampled_from([Importance.CRITICAL, Importance.BENIGN]),
    partition=st.sampled_from(["", "h100", "a*"]),
)


@given(weights=st.lists(_ENTRY, max_size=4), partition=st.sampled_from([None, "h100", "a100"]), name=_NAMES)
def test_a_sites_policy_printed_and_read_again(
    weights: list[FactWeight], partition: str | None, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a site says, the printed file says the same."""
    policy = Policy(weights=tuple(weights))
    file = tmp_path_factory.getbasetemp() / "policy.toml"
    file.write_text(policy_toml.dumps(policy))

    assert accepted.policy(file).here(partition).importance(name) is policy.here(partition).importance(name)


def test_the_order_of_entries_says_nothing() -> None:
    """A partition's entry comes first, then the longer pattern."""
    entries = [
        weight("packages.*", Importance.IGNORED),
        weight("packages.numpy", Importance.CRITICAL),
        weight("packages.numpy", Importance.BENIGN, partition="h100"),
    ]

    for order in (entries, entries[::-1]):
        policy = Policy(weights=tuple(order))
        assert policy.here("h100").importance("packages.numpy") is Importance.BENIGN
        assert policy.here(None).importance("packages.numpy") is Importance.CRITICAL
        assert policy.here(None).importance("packages.pandas") is Importance.IGNORED


def test_what_has_expired_is_gone() -> None:
    """On the day itself it still holds."""
    policy = Policy(acceptances=(Acceptance(id="a", reason="r", expires="2026-11-22"),))

    assert policy.on(date(2026, 11, 22)).acceptances
    assert not policy.on(date(2026, 11, 23))
