"""Which trials there are."""

import dataclasses
import itertools
import sys

import pytest

from attn_doctor.patient.dtypes import HALVES
from attn_doctor.patient.kernels import matrix, offers, plan
from attn_doctor.patient.kernels.cells import DIRECTIONS, DTYPES, FORMS, Place
from attn_doctor.patient.kernels.lines import parts
from attn_doctor.patient.kernels.registry import BACKENDS, backend
from attn_doctor.patient.kernels.shapes import shapes_of
from attn_doctor.patient.libraries import flex

H200 = Place(
    capability=(9, 0),
    gpu_name="H200",
    torch_version="2.11.0+cu130",
    cudnn=91900,
    versions={"flash-attn": "2.8.3", "fla-core": "0.4.2", "xformers": "0.0.35"},
)
RUN = [one for one in BACKENDS if one.calls]


def everything(one):
    return matrix.everything(one.name, (*DTYPES, *one.more_dtypes))


def offered(one, place=H200):
    return [cell for cell in everything(one) if one.contract(cell, place) is None]


def full(*backends):
    return plan.make_plan([(one, None) for one in backends], H200, "full", None, named=False)


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
        return {(cell.dtype, cell.form, cell.direction) for cell in cells if not cell.situation}

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
    quick = plan.make_plan([(one, None)], H200, "quick", None, named=False).cells

    assert full(one).cells[: len(quick)] == quick


def test_backends_take_turns():
    """When the time is over, each backend was met."""
    cells = full(backend("sdpa-flash"), backend("sdpa-math")).cells

    assert [cell.backend for cell in cells[:4]] == ["sdpa-flash", "sdpa-math"] * 2


def test_nothing_is_compiled_in_quick_unless_it_is_named():
    """FlexAttention and linear attention take most of a minute."""
    flex = [(backend("flex"), None)]

    assert plan.make_plan(flex, H200, "quick", None, named=False).cells == []
    assert plan.make_plan(flex, H200, "quick", None, named=True).cells != []


def test_what_was_left_out_is_counted():
    """Offered, run and left out add up."""
    one = backend("sdpa-cudnn")
    made = full(one)

    assert len([c for c in made.cells if not c.situation]) + made.left_out[one.name] == len(offered(one))
    assert len(made.not_offered) + len(offered(one)) == len(everything(one))


def test_previews_are_not_run():
    """Of kernels that could not be run anywhere yet only the contract is told."""
    made = full(backend("transformer-engine"))

    assert made.cells == []
    assert "preview" in made.backends[0]["state"]


@pytest.mark.parametrize("dtype", HALVES)
def test_the_float32_mask_is_always_tried(dtype):
    """The trouble that this was built for stands in the quick matrix, in half precision, by cuDNN and by default."""
    backends = [(backend(name), None) for name in ("sdpa-default", "sdpa-cudnn")]
    cells = plan.make_plan(backends, H200, "quick", None, named=False).cells

    assert {c.backend for c in cells if c.form == "fp32-mask" and c.dtype == dtype} == {"sdpa-default", "sdpa-cudnn"}


def test_the_doctor_knows_every_name():
    """--backend takes the names that patient/ runs by."""
    from attn_doctor.probe.kernels.known_kernels import BACKENDS as NAMES

    assert [one.name for one in BACKENDS] == list(NAMES)


def test_two_that_register_the_same_operators_share_no_process():
    """xformers brings FlashAttention-3's operators along: where both are run, each has a child of its own."""
    three, own, math = backend("flash-attn-3"), backend("xformers"), backend("sdpa-math")
    together = parts(full(three, own, math).cells)

    assert {part: {cell.backend for cell in cells} for part, cells in together.items()} == {
        "": {"flash-attn-3", "sdpa-math"},
        "xformers": {"xformers"},
    }
    assert list(parts(full(own, math).cells)) == [""]


def test_plans_are_made_beside_each_other():
    """cuDNN makes a plan for each shape: in processes of their own, where those that make the same one are together."""
    default, cudnn, math = backend("sdpa-default"), backend("sdpa-cudnn"), backend("sdpa-math")
    together = parts(full(default, cudnn, math).cells, beside=4)
    where = {}
    for part, cells in together.items():
        for cell in cells:
            key = (cell.dtype, cell.direction, shapes_of(cell), cell.backend == "sdpa-math")
            where.setdefault(key, set()).add(part)

    assert set(together) == {"", "plans-0", "plans-1", "plans-2", "plans-3"}
    assert {cell.backend for cell in together[""]} == {"sdpa-math"}
    assert all(len(found) == 1 for found in where.values())
    sizes = [len(cells) for part, cells in together.items() if part]
    assert max(sizes) < 2 * min(sizes)
    assert list(parts(full(default, cudnn).cells)) == [""]


@pytest.mark.parametrize("one", RUN, ids=lambda one: one.name)
def test_quick_meets_every_situation(one):
    """Each layout, value and way to call that a kernel is asked for is met once by `quick`, the usual ones as well."""
    cells = plan.make_plan([(one, None)], H200, "quick", None, named=False).cells
    wanted = {c.situation for c in matrix.special(one) if one.contract(c, H200) is None}

    assert {c.situation for c in cells if c.situation} == (set() if one.compiled else wanted)
    assert sum(bool(c.situation) for c in cells) == len({c.situation for c in cells if c.situation})


def test_what_fails_most_often_comes_first():
    """Rows without a key, layouts and wide masks before dense calls; situations and forms in turn."""
    cells = full(backend("sdpa-cudnn")).cells

    assert [(c.situation, c.form) for c in cells[:4]] == [
        ("dead-rows", "bool-mask"),
        ("", "fp32-mask"),
        ("fused", "causal"),
        ("", "fp32-mask"),
    ]
    assert cells.index(next(c for c in cells if c.form == "dense" and not c.situation)) > 10


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder on sys.path with the part of flash-attn-4 that flash-attn 2's wheel holds."""
    cute = tmp_path / "flash_attn" / "cute"
    cute.mkdir(parents=True)
    (cute / "__init__.py").write_text("import cutlass")
    (tmp_path / "flash_attn" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("folder")
def test_flash_attention_4_is_more_than_its_folder():
    """flash-attn 2's wheel holds some of it: it is there where its own distribution is; looking imports nothing."""
    from attn_doctor.patient.kernels.run import _missing

    four = backend("flash-attn-4")

    assert _missing(four, H200) == "not installed"
    assert _missing(four, dataclasses.replace(H200, versions={"flash-attn-4": "4.0.0b36"})) is None
    assert _missing(backend("flash-attn-3"), H200) == "not installed"


@pytest.mark.parametrize("mode", ["quick", "full"])
@pytest.mark.parametrize("name", ["sdpa-flash", "sdpa-efficient", "sdpa-cudnn", "flash-attn-2"])
def test_what_is_timed_against_elsewhere_is_tried(mode, name):
    """bf16, head dim 128, causal, forward and in training, in each mode; timed before others."""
    cells = plan.make_plan([(backend(name), None)], H200, mode, None, named=False).cells
    compared = [cell for cell in cells if cell in matrix.for_share(backend(name))]

    assert len(set(cells)) == len(cells)
    assert {(c.dtype, c.head_dim, c.form, c.direction) for c in compared} == {
        ("bfloat16", 128, "causal", "forward"),
        ("bfloat16", 128, "causal", "train"),
    }
    assert all(matrix.worth_timing(cell) for cell in compared)


@pytest.mark.parametrize("name", ["sdpa-default", "sdpa-math", "flex", "fla-gla", "mine:attend"])
def test_what_is_not_timed_against_elsewhere(name):
    """What torch picks is one of the others; plain, compiled, linear and own kernels have no number elsewhere."""
    assert matrix.for_share(backend(name)) == []


@pytest.mark.parametrize(("mode", "dtypes"), [("full", None), ("full", ["float16"]), ("quick", None)])
def test_flex_is_looked_at_in_each_dtype_and_head_dimension(mode, dtypes):
    """Without a GPU every pair of dtype and head dimension is met once, in `full` every form; nothing else is."""
    calls = plan.flex_calls(H200, mode, dtypes)
    plain = [(call.dtype, call.head_dim) for call in calls if call.form == "causal"]
    wanted = dtypes or list(DTYPES)

    assert sorted(plain) == sorted(itertools.product(wanted, (64, 96, 128, 192, 256) if mode == "full" else (64, 128)))
    assert {call.form for call in calls} == (set(FORMS) if mode == "full" else {"causal"})
    assert all(offers.by(flex.clauses)(call, H200) is None for call in calls)


def test_flex_is_not_looked_at_where_torch_has_none():
    """Before torch 2.5, and in fp8, there is no call to look at."""
    assert plan.flex_calls(dataclasses.replace(H200, torch_version="2.4.1"), "full", None) == []
    assert plan.flex_calls(H200, "full", ["float8_e4m3fn"]) == []


def test_why_nothing_is_compiled_for_a_gpu():
    """Naming is advised for what naming would bring, and for nothing that is not installed or takes no such dtype."""
    from attn_doctor.patient.kernels import compilation

    def why_not(dtypes):
        installed = [(backend("fla-gla"), "not installed"), (backend("flex"), None)]
        made = plan.make_plan(installed, H200, "quick", dtypes, named=False)
        names = [one["name"] for one in made.backends]
        return compilation.todo(made.cells, names, {"compute_capability": "9.0"}, [], made.left_out)[1]

    assert why_not(None) == "none of these would run unless it is named or in `full`: FlexAttention"
    assert why_not(["float8_e4m3fn"]) == "nothing that Triton compiles would run, as said above"
