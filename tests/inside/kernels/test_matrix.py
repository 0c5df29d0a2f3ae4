"""Which trials there are."""

import dataclasses
import itertools

import pytest

from attn_doctor.inside.kernels import contracts, matrix, plan
from attn_doctor.inside.kernels.cells import DIRECTIONS, DTYPES, FORMS, HALVES, Place
from attn_doctor.inside.kernels.registry import BACKENDS, backend

H200 = Place(
    capability=(9, 0),
    gpu_name="H200",
    torch_version="2.11.0+cu130",
    cudnn=91900,
    versions={"flash-attn": "2.8.3", "fla-core": "0.4.2", "xformers": "0.0.35"},
)
RUN = [one for one in BACKENDS if one.calls]


def offered(one, place=H200):
    return [cell for cell in matrix.everything(one.name) if one.contract(cell, place) is None]


def full(*backends):
    return plan.make([(one, None) for one in backends], H200, "full", None, named=False)


@pytest.mark.parametrize("one", RUN, ids=lambda one: one.name)
def test_few_trials_meet_every_pair(one):
    """Each two values of two axes that a kernel offers together stand in one of the few trials."""
    cells = offered(one)
    met = set().union(*map(matrix.pairs, matrix.pairwise(cells)))

    assert met == set().union(*map(matrix.pairs, cells))


@pytest.mark.parametrize("one", [one for one in RUN if not one.compiled], ids=lambda one: one.name)
def test_full_meets_every_form_in_every_dtype_and_direction(one):
    """Every backend and dtype is met by every mask and direction that it offers."""

    def met(cells):
        return {(cell.dtype, cell.form, cell.direction) for cell in cells}

    assert met(full(one).cells) == met(offered(one))


def test_everything_is_everything():
    """The axes of one backend multiply: nothing is left out before a contract was asked."""
    cells = matrix.everything("sdpa-math")

    assert {(c.dtype, c.form, c.direction) for c in cells} == set(itertools.product(DTYPES, FORMS, DIRECTIONS))
    assert len(cells) == len(set(cells)) == len(DTYPES) * len(FORMS) * len(DIRECTIONS) * 5


def test_the_same_on_every_node():
    """Two nodes alike run the same trials in the same order."""
    assert full(*RUN).cells == full(*RUN).cells


def test_quick_is_the_beginning_of_full():
    """When the time of a full run is over early, at least what quick runs was run."""
    one = backend("sdpa-cudnn")
    quick = plan.make([(one, None)], H200, "quick", None, named=False).cells

    assert full(one).cells[: len(quick)] == quick


def test_backends_take_turns():
    """When the time is over, each backend was met."""
    cells = full(backend("sdpa-flash"), backend("sdpa-math")).cells

    assert [cell.backend for cell in cells[:4]] == ["sdpa-flash", "sdpa-math"] * 2


def test_nothing_is_compiled_in_quick_unless_it_is_named():
    """FlexAttention and linear attention take most of a minute."""
    flex = [(backend("flex"), None)]

    assert plan.make(flex, H200, "quick", None, named=False).cells == []
    assert plan.make(flex, H200, "quick", None, named=True).cells != []


def test_what_was_left_out_is_counted():
    """Offered, run and left out add up."""
    one = backend("sdpa-cudnn")
    made = full(one)

    assert len(made.cells) + made.left_out[one.name] == len(offered(one))
    assert len(made.not_offered) + len(offered(one)) == len(matrix.everything(one.name))


def test_previews_are_not_run():
    """Of kernels that could not be run anywhere yet only the contract is told."""
    made = full(backend("flash-attn-4"))

    assert made.cells == []
    assert "preview" in made.backends[0]["state"]


@pytest.mark.parametrize("dtype", HALVES)
def test_the_float32_mask_is_always_tried(dtype):
    """The trouble that this was built for stands in the quick matrix, in half precision, by cuDNN and by default."""
    backends = [(backend(name), None) for name in ("sdpa-default", "sdpa-cudnn")]
    cells = plan.make(backends, H200, "quick", None, named=False).cells

    assert {c.backend for c in cells if c.form == "fp32-mask" and c.dtype == dtype} == {"sdpa-default", "sdpa-cudnn"}


def test_the_doctor_knows_every_name():
    """--backend takes the names that inside/ runs by."""
    from attn_doctor.probe.known_kernels import BACKENDS as NAMES

    assert [one.name for one in BACKENDS] == list(NAMES)


@pytest.mark.parametrize(("mode", "dtypes"), [("full", None), ("full", ["float16"]), ("quick", None)])
def test_flex_is_looked_at_in_each_dtype_and_head_dimension(mode, dtypes):
    """Without a GPU every pair of dtype and head dimension is met once, in `full` every form; nothing else is."""
    calls = plan.flex_calls(H200, mode, dtypes)
    plain = [(call.dtype, call.head_dim) for call in calls if call.form == "causal"]
    wanted = dtypes or list(DTYPES)

    assert sorted(plain) == sorted(itertools.product(wanted, (64, 96, 128, 192, 256) if mode == "full" else (64, 128)))
    assert {call.form for call in calls} == (set(FORMS) if mode == "full" else {"causal"})
    assert all(contracts.flex(call, H200) is None for call in calls)


def test_flex_is_not_looked_at_where_torch_has_none():
    """Before torch 2.5 there is no call to look at."""
    assert plan.flex_calls(dataclasses.replace(H200, torch_version="2.4.1"), "full", None) == []
