"""Equal nodes give equal fingerprints, wherever their folders lie."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from attn_doctor.diagnose import fingerprint
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Unknown

_part = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=3, max_size=8).map(lambda text: f"z{text}")
_prefixes = st.lists(_part, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def _facts(prefix: str, home: str, node: str, user: str) -> FactSet:
    states: dict[str, State] = {
        "python.version": Known("3.11.7"),
        "listed.package": Known(2),
        "package.torch.version": Known("2.13.0"),
        "package.flash-attn.version": Unknown(f"METADATA of {prefix}/lib/x cannot be read"),
        "torch.version": Known("2.13.0+cpu"),
        "listed.library": Known(1),
        "library.libnccl.so.2.path": Known(
            f"{prefix}/lib/python3.11/site-packages/torch/lib/../../nvidia/libnccl.so.2"
        ),
        "library.libnccl.so.2.identity": Known("build-id 1234, 5 bytes"),
        "listed.extension": Known(0),
        "listed.gpu": Known(0),
        "listed.env": Known(3),
        "env.LD_LIBRARY_PATH": Known(f"{prefix}/lib:{home}/lib:/usr/local/cuda/lib64"),
        "env.NCCL_CONF_FILE": Known(f"/etc/nccl/{node}.conf"),
        "env.TRITON_LIBCUDA_PATH": Known(f"/scratch/{user}/cuda"),
    }
    return FactSet(Fact(name=FactName.parse(name), state=state, how="") for name, state in states.items())


def _places(prefix: str, home: str, node: str, user: str) -> fingerprint.Places:
    return fingerprint.Places(folders=((prefix, "prefix"), (home, "home")), hosts=(node,), users=(user,))


@given(prefix=_prefixes, home=_prefixes, node=_part, user=_part)
def test_independent_of_prefix_home_node_and_user(prefix: str, home: str, node: str, user: str) -> None:
    """The same stack elsewhere, on another node, of another user: the same fingerprint, word for word."""
    # Where equal names stand for different things nobody can tell them apart; the next test has the nesting.
    assume(node != user and not {node, user} & {*prefix.split("/"), *home.split("/")} and not prefix.startswith(home))
    usual = ("/opt/venv", "/home/somebody", "n17", "somebody")

    one = fingerprint.fingerprint_from(_facts(*usual), packages=("torch", "triton"), places=_places(*usual))
    other = fingerprint.fingerprint_from(
        _facts(prefix, home, node, user), packages=("torch", "triton"), places=_places(prefix, home, node, user)
    )

    assert one == other
    assert one.facts["library_path.libnccl.so.2"] == "{prefix}/lib/python3.11/site-packages/nvidia/libnccl.so.2"


def test_a_prefix_below_home() -> None:
    """The environment's folder is the nearer name; a folder whose name only begins like it is another one."""
    places = fingerprint.Places(
        folders=(("/home/jo/venv", "prefix"), ("/home/jo", "home")), hosts=("n1",), users=("jo",)
    )

    assert places.without("/home/jo/venv/lib:/home/jo/lib") == "{prefix}/lib:{home}/lib"
    assert places.without("/home/jo/venv2/lib") == "{home}/venv2/lib"
    assert places.without("/home/joe/lib") == "/home/joe/lib"
    assert places.without("/local/n1/x, n10") == "/local/{node}/x, n10"


def test_three_answers() -> None:
    """Absent is null, what could not be looked at says why, and neither is left out."""
    told = fingerprint.fingerprint_from(
        FactSet(
            [
                Fact(name=FactName.parse("listed.package"), state=Known(0), how=""),
                Fact(name=FactName.parse("driver.version"), state=Unknown("NVML hung"), how=""),
                Fact(name=FactName.parse("torch.cuda"), state=Absent("no torch"), how=""),
                Fact(name=FactName.parse("listed.gpu"), state=Unknown("NVML hung"), how=""),
            ]
        ),
        packages=("triton",),
        places=fingerprint.Places(),
    ).facts

    assert told["packages.triton"] is None
    assert told["cuda_runtime"] is None
    assert told["driver"] == Unknown("NVML hung")
    assert told["gpu_count"] == Unknown("NVML hung")
    assert told["compute_capability"] == Unknown("NVML hung")
