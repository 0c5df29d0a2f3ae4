"""Builds of torch for a node, and what can be had beside them."""

from __future__ import annotations

import pytest

from attn_doctor.model.stack import Channel, PlannedNode
from attn_doctor.stack.candidates import Limits, Obstacle, Piece, Spot, piece, spots
from attn_doctor.stack.wants import Want, read_wants

H100 = PlannedNode(gpu="h100", capability="9.0", driver="580.95", python="3.12")
T4 = PlannedNode(gpu="t4", capability="7.5", driver="580.95", python="3.12")
V100 = PlannedNode(gpu="v100", capability="7.0", driver="580.95", python="3.12")


def spot(torch: str, cuda: str, channel: Channel = Channel.REGISTRY) -> Spot:
    return Spot(torch=torch, cuda=cuda, channel=channel)


def want(text: str) -> Want:
    return read_wants([text])[-1]


def test_an_old_driver_leaves_older_cudas() -> None:
    """CUDA 13 needs driver 580; what is left comes from torch's own index where the registry's build is newer."""
    node = PlannedNode(gpu="h100", capability="9.0", driver="535.183", python="3.12")

    found = spots(node, Limits())[0]

    assert not any(one.cuda.startswith("13.") for one in found)
    assert found[0] == spot("2.15.0", "12.6", Channel.TORCH_INDEX)


def test_a_gpu_without_code_is_not_served() -> None:
    """The registry's torch 2.15 holds nothing for a V100, the build for CUDA 12.6 does."""
    found = [one for one in spots(V100, Limits())[0] if one.torch == "2.15.0"]

    assert found == [spot("2.15.0", "12.6", Channel.TORCH_INDEX)]


def test_a_python_that_a_release_lacks() -> None:
    """torch 2.8 has no wheels for Python 3.14, and the reason says which it has."""
    node = PlannedNode(python="3.14")
    able, unable = spots(node, Limits())

    assert "2.8.0" not in {one.torch for one in able}
    assert "3.9 to 3.13" in next(why.words for where, why in unable if where.torch == "2.8.0")


@pytest.mark.parametrize(("build", "cuda", "builds"), [("cu126", "", {"cu126"}), ("", "13", {"cu130", "cu132"})])
def test_limits(build: str, cuda: str, builds: set[str]) -> None:
    """A person names a build, or a CUDA."""
    assert {one.build for one in spots(H100, Limits(build=build, cuda=cuda))[0]} == builds


def test_flash_attn_has_a_wheel_or_a_reason() -> None:
    """For torch 2.8 one of its authors' files; for 2.13 none; for a T4 never."""
    there = piece(want("flash-attn"), spot("2.8.0", "12.8"), H100)
    newer = piece(want("flash-attn"), spot("2.13.0", "13.0"), H100)
    older = piece(want("flash-attn"), spot("2.8.0", "12.8"), T4)

    assert isinstance(there, Piece)
    assert there.channel is Channel.AUTHORS
    assert "cu12torch2.8cxx11abiTRUE-cp312" in there.file
    assert isinstance(newer, Obstacle)
    assert "none is for 2.13" in newer.words
    assert isinstance(older, Obstacle)
    assert older.by_gpu
    assert older.words == "flash-attn needs compute capability 8.0 or later; t4 has 7.5"


def test_the_abi_of_torch_decides_the_wheel() -> None:
    """torch 2.5 and the registry's 2.6 have the old C++ ABI."""
    found = piece(want("flash-attn"), spot("2.5.1", "12.4"), H100)

    assert isinstance(found, Piece)
    assert "cxx11abiFALSE" in found.file


def test_xformers_follows_the_cuda_major_of_torch() -> None:
    """The registry's wheels are for CUDA 12: beside CUDA 13 it comes from torch's own index."""
    beside_12 = piece(want("xformers"), spot("2.9.1", "12.8"), H100)
    beside_13 = piece(want("xformers"), spot("2.13.0", "13.0"), H100)

    assert isinstance(beside_12, Piece)
    assert beside_12.channel is Channel.REGISTRY
    assert isinstance(beside_13, Piece)
    assert (beside_13.channel, beside_13.version) == (Channel.TORCH_INDEX, "0.0.35")


def test_xformers_is_narrowed_to_what_the_gpu_runs() -> None:
    """Its wheels lost the code for a V100 with 0.0.31."""
    found = piece(want("xformers"), spot("2.7.0", "12.6"), V100)

    assert isinstance(found, Piece)
    assert found.requirement == "xformers<0.0.31"


def test_a_registrys_wheel_is_for_the_registrys_cuda() -> None:
    """vllm is compiled against the torch that the registry has; beside another CUDA major it does not load."""
    found = piece(want("vllm"), spot("2.9.1", "13.0", Channel.TORCH_INDEX), H100)

    assert isinstance(found, Obstacle)
    assert "compiled for CUDA 12.8" in found.words


def test_older_gpus_than_the_authors_name_get_a_note() -> None:
    """Triton's kernels may run there: no refusal."""
    found = piece(want("fla"), spot("2.9.1", "12.8"), T4)

    assert isinstance(found, Piece)
    assert len(found.notes) == 1


@pytest.mark.parametrize("node", [T4, PlannedNode(gpu="b200", capability="10.0", driver="590.44")])
def test_flash_attn_3_is_hoppers(node: PlannedNode) -> None:
    """Neither older nor newer GPUs."""
    found = piece(want("flash-attn-3"), spot("2.11.0", "13.0"), node)

    assert isinstance(found, Obstacle)
    assert found.by_gpu


@pytest.mark.parametrize(
    ("want", "torch", "cuda", "file"),
    [
        (
            "causal-conv1d",
            "2.10.0",
            "13.0",
            "causal_conv1d-1.6.1+cu13torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        ),
        ("mamba-ssm", "2.9.1", "12.8", "mamba_ssm-2.3.2.post1+cu12torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"),
        ("flash-attn", "2.10.0", "13.0", "flash_attn-2.8.3+cu13torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"),
        ("causal-conv1d", "2.11.0", "13.0", ""),
        ("mamba-ssm", "2.8.0", "13.0", ""),
        ("flash-attn", "2.10.0", "12.8", ""),
    ],
)
def test_files_of_authors(want: str, torch: str, cuda: str, file: str) -> None:
    """By the matrix of each release; none is guessed."""
    node = PlannedNode(gpu="h100", capability="9.0", python="3.12", glibc="2.35")
    found = piece(read_wants([want])[1], Spot(torch=torch, cuda=cuda, channel=Channel.TORCH_INDEX), node)

    assert (found.file if isinstance(found, Piece) else "") == file


def test_what_the_table_says_of_pinned_torches() -> None:
    """No vllm is made for torch 2.12; the newest for 2.9.1 bounds the resolver; of newer torches nothing is said."""

    def asked(want: str, torch: str) -> str:
        node = PlannedNode(gpu="h100", capability="9.0", python="3.12")
        cuda = "12.8" if torch == "2.9.1" else "13.0"
        found = piece(read_wants([want])[1], Spot(torch=torch, cuda=cuda, channel=Channel.REGISTRY), node)
        return found.requirement if isinstance(found, Piece) else found.words

    assert asked("vllm", "2.12.1") == (
        "no release of vllm is made for torch 2.12.1: the nearest are for 2.11.0 and 2.13.0"
    )
    assert "<=0.16.0" in asked("vllm", "2.9.1")
    assert asked("vllm", "2.15.0") == "vllm"
    assert asked("vllm==0.30.0", "2.11.0") == "vllm 0.30.0 is made for torch 2.13.0"


def test_a_partner_comes_from_where_torch_comes_from() -> None:
    """torchvision beside a torch from torch's own index is that of the same index."""
    node = PlannedNode(gpu="v100", capability="7.0", python="3.12")
    found = piece(read_wants(["torchvision"])[1], Spot(torch="2.13.0", cuda="12.6", channel=Channel.TORCH_INDEX), node)

    assert isinstance(found, Piece)
    assert (found.channel, found.version) == (Channel.TORCH_INDEX, "0.28.0")
    assert found.url.endswith("/cu126")
