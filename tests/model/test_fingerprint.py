"""What tells one node's attention stack from another's."""

from __future__ import annotations

import fnmatch
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.model import fingerprint
from attn_doctor.model.facts import Unknown
from attn_doctor.model.fingerprint import Importance, Trait, differences, importance
from attn_doctor.probe.packages.known_packages import PACKAGES
from tests import strategies


@given(traits=strategies.traits, chaos=st.randoms(use_true_random=False))
def test_order_does_not_matter(traits: dict[str, Trait], chaos: random.Random) -> None:
    """Facts in another order make the same fingerprint."""
    shuffled = list(traits.items())
    chaos.shuffle(shuffled)

    assert fingerprint.fingerprint_of(dict(shuffled)) == fingerprint.fingerprint_of(traits)


@given(traits=strategies.traits)
def test_null_is_absent(traits: dict[str, Trait]) -> None:
    """A fact that is null and one that is not written hash alike: a doctor that looks at more hashes no other way."""
    written = {name: trait for name, trait in traits.items() if trait is not None}

    assert (
        fingerprint.fingerprint_of(written).sha256
        == fingerprint.fingerprint_of({**traits, "packages.new": None}).sha256
    )


@given(traits=strategies.traits, reason=st.text(max_size=20))
def test_reasons_do_not_count(traits: dict[str, Trait], reason: str) -> None:
    """Why something could not be looked at differs between nodes; that it could not is what they share."""
    one = fingerprint.fingerprint_of({**traits, "driver": Unknown("NVML did not answer within 31 s")})
    other = fingerprint.fingerprint_of({**traits, "driver": Unknown(reason)})
    known = fingerprint.fingerprint_of({**traits, "driver": None})

    assert one.sha256 == other.sha256
    assert one.sha256 != known.sha256


@given(old=strategies.traits, new=strategies.traits)
def test_equal_hashes_are_equal_facts(old: dict[str, Trait], new: dict[str, Trait]) -> None:
    """Two fingerprints hash alike exactly where nothing differs; the critical hash likewise for critical facts."""
    before, after = fingerprint.fingerprint_of(old), fingerprint.fingerprint_of(new)
    changes = list(differences(before.facts, after.facts))

    assert (before.sha256 == after.sha256) == (not changes)
    assert (before.critical == after.critical) == all(one.importance is not Importance.CRITICAL for one in changes)


@given(old=strategies.traits, new=strategies.traits)
def test_differences_are_symmetric(old: dict[str, Trait], new: dict[str, Trait]) -> None:
    """The same facts differ, whichever report is called the old one."""
    there = {(one.name, str(one.old), str(one.new)) for one in differences(old, new)}
    back = {(one.name, str(one.new), str(one.old)) for one in differences(new, old)}

    assert there == back


def test_what_ranks_have_of_their_own_is_left_out() -> None:
    """Each rank's GPU, each node's id and each user's cache differ on equal nodes."""
    own: dict[str, Any] = {
        "env.CUDA_VISIBLE_DEVICES": "3",
        "env.NCCL_HOSTID": "a1",
        "env.TRITON_CACHE_DIR": "/tmp/job-17",
        "env.NCCL_TOPO_DUMP_FILE": "/tmp/x",
    }

    assert fingerprint.fingerprint_of(own) == fingerprint.fingerprint_of({})


def test_importance() -> None:
    """Facts that decide kernels, dtypes and communication are critical, and so are facts without a rule."""
    for name in ("packages.torch", "packages.flash-attn", "libraries.libnccl.so.2", "libraries.flash_attn_2_cuda",
                 "python", "compute_capability", "gpu_count", "env.NCCL_ALGO", "env.TRITON_F32_DEFAULT",
                 "env.NCCL_TOPO_FILE", "something.new"):  # fmt: skip
        assert importance(name) is Importance.CRITICAL, name
    for name in ("driver", "kernel", "python_release", "packages.einops", "packages.some-torch-tool",
                 "packages.nvidia-nccl-cu12", "library_path.libnccl.so.2", "env.NCCL_DEBUG"):  # fmt: skip
        assert importance(name) is Importance.BENIGN, name


def test_every_known_package_was_weighed() -> None:
    """A package that `check` imports or whose kernels it looks at is critical; adding one means deciding."""
    benign = {package.name for package in PACKAGES if importance(f"packages.{package.name}") is not Importance.CRITICAL}

    assert benign == {
        "torchvision", "torchaudio", "trl", "einops", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12",
        "nvidia-cudnn-cu13",
    }  # fmt: skip


def test_patterns_fit_as_a_shell_would_have_them_fit() -> None:
    """A pattern's star stands for any text, also none; a pattern without one is a whole name."""
    patterns = [pattern for _, some in fingerprint.TABLE for pattern in some]
    names = {pattern.replace("*", filling) for pattern in patterns for filling in ("", "X", "A_B.c")}

    assert all(pattern.count("*") <= 1 for pattern in patterns)
    for name in names | {name[:-1] for name in names} | {f"{name}_MORE" for name in names}:
        fit = (answer for answer, some in fingerprint.TABLE if any(fnmatch.fnmatchcase(name, one) for one in some))
        assert importance(name) is next(fit, Importance.CRITICAL), name
