"""What stands in for a kernel gives back what the kernel would: a view that works there works here, and the reverse."""

import json
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "layout_models.py"
RECORDED = json.loads((Path(__file__).parent / "layout_answers.json").read_text())["answers"]
HELD = ("flash_attn", "flash_attn_interface", "xformers", "sdpa")
EVERY = ["flash_attn", "flash_attn_3", "flash_attn_4", "xformers"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("library", EVERY)
def test_packed_projection(traced, library, normed, backward):
    """The output of q, k and v cut out of one projection has no gaps: it can be viewed."""
    answer = traced(
        "projected",
        file=MODELS,
        library=library,
        normed=normed,
        stand_ins=EVERY,
        autocast="float16",
        backward=backward,
    )

    assert (answer["error"], answer["verdict"]) == (None, "clean")


@pytest.mark.parametrize(
    ("library", "works"), [("flash_attn", False), ("xformers", False), ("flash_attn_3", True), ("flash_attn_4", True)]
)
def test_heads_first(traced, library, works):
    """FlashAttention 2 allocates its output like q: where heads come first in memory a view raises there and here."""
    answer = traced("projected", file=MODELS, library=library, heads_first=True, stand_ins=EVERY, autocast="float16")

    assert answer["verdict"] == "clean"  # the attention call itself
    assert (answer["error"] is None) == works
    if not works:
        assert "view size is not compatible" in answer["error"]["message"]


def test_heads_first_reshaped(traced):
    """Reshaping the same output copies it, and works."""
    answer = traced("projected", file=MODELS, library="flash_attn", heads_first=True, view=False, autocast="float16")

    assert (answer["error"], answer["verdict"]) == (None, "clean")


@pytest.mark.parametrize(("heads_first", "length", "works"), [(False, 4, True), (True, 4, False), (True, 1, True)])
def test_with_cache(traced, heads_first, length, works):
    """Decoding: one query at a time can be viewed however it lies, several cannot."""
    answer = traced("with_cache", file=MODELS, heads_first=heads_first, length=length)

    assert answer["verdict"] == "clean"
    assert (answer["error"] is None) == works


def test_masks_by_name(traced):
    """xformers' block-diagonal mask is made from tensors and gives them back."""
    answer = traced("documents", file=MODELS, stand_ins=EVERY)

    assert (answer["error"], answer["verdict"]) == (None, "clean")


@pytest.mark.parametrize(("gpu", "works"), [("h100", True), ("a100", True), ("b200", False), ("12.0", False)])
def test_flash_attn_3_has_no_kernels_beyond_hopper(traced, gpu, works):
    """FlashAttention 3 is built for 8.x and 9.0: a trace on a later GPU ends as the kernel launch does there."""
    place = {"h100": "9.0", "a100": "8.0", "b200": "10.0"}.get(gpu, gpu)
    answer = traced(
        "projected",
        file=MODELS,
        library="flash_attn_3",
        stand_ins=EVERY,
        autocast="bfloat16",
        gpu={"compute_capability": place},
    )

    assert answer["verdict"] == ("clean" if works else "raises")
    if not works:
        assert "no kernel image" in answer["attention"][0]["error"]["message"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("float32", "AssertionError: inputs must be float16"),
        ("3 heads of k for 4 of q", "AssertionError: num_head must be divisible by num_head_kv"),
    ],
)
def test_errors_of_the_same_class(answers, call, error):
    """Code that falls back on `except AssertionError` falls back here too."""
    assert answers["flash_attn.cute"][call].startswith(error)


def test_errors_of_xformers(answers):
    """Wrong input is a ValueError there, and what no operator takes a NotImplementedError."""
    found = answers["xformers"]

    assert found["float32 k"].startswith("ValueError: Query/Key/Value should either all have the same dtype")
    for call in ("dim 60", "float64", "last stride 2", "another output dtype"):
        assert found[call].startswith("NotImplementedError: No operator found for `memory_efficient_attention_forward`")
    assert found["bias of another shape"].startswith("ValueError: Invalid shape for attention bias")


@pytest.fixture(scope="module")
def answers(traced, tmp_path_factory):
    file = tmp_path_factory.mktemp("layouts") / "answers.json"
    answer = traced(
        "every_call",
        file=Path(__file__).parent / "layout_calls.py",
        stand_ins=EVERY,
        counterfactual=False,
        answers_file=str(file),
        gpu={"compute_capability": "9.0"},
        libraries=[*HELD, "flash_attn.cute"],
    )
    assert answer["error"] is None
    return json.loads(file.read_text())


@pytest.mark.parametrize(("library", "call"), [(library, call) for library in HELD for call in RECORDED[library]])
def test_as_on_a_gpu(answers, library, call):
    """Shapes, strides, dtypes, tuples, and the class and first line of errors: as the kernels answered on an H100."""
    if (library, call) == ("xformers", "float64"):
        pytest.skip("a KeyError of its own, where NotImplementedError is meant")

    assert answers[library][call] == RECORDED[library][call]
