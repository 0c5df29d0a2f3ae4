"""What must come out, and how far from it a kernel may be."""

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.kernels import problems, truth  # noqa: E402
from attn_doctor.patient.kernels.cells import DTYPES, FORMS, Cell  # noqa: E402
from attn_doctor.patient.libraries import fla_trials, sdpa  # noqa: E402

SIZES = (1, 4, 128)
SDPA_FORMS = [form for form in FORMS if form not in ("varlen", "window", "softcap")]


def problem(dtype="bfloat16", form="dense", direction="train", head_dim=64, seed=3):
    return problems.make_problem(Cell("sdpa-math", dtype, head_dim, form, direction), "cpu", seed, SIZES)


def judged(made, first, second=None, promised=False):
    reference = truth.plain(made, torch.float64, truth.softmax_attention)
    plain = truth.plain(made, made.q.dtype, truth.softmax_attention)
    yardstick = {name: truth.distance(plain[name], wanted)["relative"] for name, wanted in reference.items()}
    limit = truth.limits(yardstick, made.cell.dtype)
    return truth.judge(first, second or first, 12288.0, reference, limit, promised)


def right(made):
    return truth.plain(made, made.q.dtype, truth.softmax_attention)


@pytest.mark.parametrize("form", SDPA_FORMS)
def test_the_reference_is_attention(form):
    """In float64 the plain recipe and torch's own math give the same, whatever the form."""
    made = problem("float32", form)
    made.q, made.k, made.v = (t.detach().double() for t in (made.q, made.k, made.v))
    made.mask = made.mask.double() if made.mask is not None and made.mask.dtype != torch.bool else made.mask
    given = sdpa.arguments(made)
    wanted = torch.nn.functional.scaled_dot_product_attention(made.q, made.k, made.v, **given)

    found = truth.softmax_attention(made, made.leaves())

    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def last_query(made, **changed):
    return truth.softmax_attention(made, {**made.leaves(), **changed})[..., -1, :]


@pytest.mark.parametrize("form", ["varlen", "window"])
def test_far_keys_are_not_seen(form):
    """Packed sequences do not see each other, and a window ends: the last query does not see the first key."""
    made = problems.make_problem(Cell("sdpa-math", "float32", 64, form, "forward"), "cpu", 3, (1, 2, 256))
    far, near = made.k.clone(), made.k.clone()
    far[..., 0, :] += 5.0
    near[..., -2, :] += 5.0

    assert torch.equal(last_query(made, k=far), last_query(made))
    assert not torch.equal(last_query(made, k=near), last_query(made))


def test_a_cap_caps():
    """Where every score is far beyond the cap, making it larger still changes nothing."""
    made = problem("float32", "softcap", "forward")
    large = made.q * 1e5

    torch.testing.assert_close(last_query(made, q=large), last_query(made, q=large * 10))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_the_recipe_in_its_own_dtype_is_right(dtype, form):
    """What half precision costs is no fault."""
    if form == "half-mask" and dtype == "float32":
        pytest.skip("no half mask beside float32")

    assert judged(made := problem(dtype, form), right(made))["outcome"] == "right"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["dense", "causal", "half-mask", "softcap"])
def test_two_per_cent_off_is_wrong(dtype, form):
    """An output that is off by 2 % is caught in every dtype."""
    made = problem(dtype, form if (form, dtype) != ("half-mask", "float32") else "fp32-mask")
    results = right(made)
    results["out"] = results["out"] * 1.02

    assert judged(made, results)["troubles"] == ["error"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_per_cent_are_too_much_whatever_the_yardstick_says(dtype):
    """Where the plain recipe itself is far off, an output is still held to less than 2 %, a gradient to twice that."""
    found = truth.limits({"out": 1.0, "dq": 1.0}, dtype)

    assert found["out"] < 0.02
    assert found["dq"] == 2 * found["out"]


def test_unwritten_is_told_from_nan():
    """What holds NaN once and the poison the next time was written by nobody; NaN both times is the kernel's own."""
    made = problem(direction="forward")
    first, second = right(made), right(made)
    first["out"][..., 64:, :] = float("nan")
    second["out"][..., 64:, :] = 12288.0
    poisoned = judged(made, first, second)
    second["out"][..., 64:, :] = float("nan")

    assert poisoned["troubles"] == ["unwritten"]
    assert poisoned["unwritten"] == first["out"][..., 64:, :].numel()
    assert judged(made, first, second)["troubles"] == ["NaN"]
    assert poisoned["errors"]["out"]["relative"] is None  # JSON has no NaN


def test_infinity():
    """An infinite output is told as such."""
    made = problem(direction="forward")
    first = right(made)
    first["out"][0, 0, 0, 0] = float("inf")

    assert judged(made, first)["troubles"] == ["infinity"]


@pytest.mark.parametrize(
    ("value", "trouble"), [(7.0, "error"), (float("nan"), "NaN"), (float("inf"), "infinity"), (12288.0, "error")]
)
def test_both_runs_are_judged(value, trouble):
    """A kernel that is right beside NaN and wrong beside numbers reads what nobody wrote: it is wrong."""
    made = problem(direction="forward")
    second = right(made)
    second["out"][..., 64:, :] = value
    found = judged(made, right(made), second)

    assert found["outcome"] == "wrong"
    assert found["troubles"] == [trouble]


def test_another_shape_is_no_result():
    """One that happens to broadcast over what is asked for is refused, not measured."""
    made = problem(direction="forward")
    results = right(made)

    with pytest.raises(ValueError, match="has the shape"):
        judged(made, {"out": results["out"][:, :1]})


def test_flickering_is_wrong_only_where_it_was_promised():
    """Two runs that differ in the last bit are wrong where the library promises the same bits."""
    made = problem(direction="forward")
    first, second = right(made), right(made)
    second["out"] = torch.nextafter(second["out"], torch.full_like(second["out"], 9.0))

    assert judged(made, first, second)["outcome"] == "right"
    assert judged(made, first, second, promised=True)["troubles"] == ["not deterministic"]


def test_the_seed_decides():
    """The same seed gives the same numbers, another one others."""
    assert torch.equal(problem(seed=1).q, problem(seed=1).q)
    assert not torch.equal(problem(seed=1).q, problem(seed=2).q)


def test_a_float32_mask_that_is_misread_gives_a_number():
    """The bytes of the float32 mask, read as bfloat16 or float16, are finite: the error is told as a number."""
    mask = problem(form="fp32-mask").mask

    assert torch.isfinite(mask.view(torch.bfloat16)).all()
    assert torch.isfinite(mask.view(torch.float16)).all()


# --------------------------------------------------------------------------------------------------------------
# Linear attention


def leaves(name, **replaced):
    made = fla_trials.make_problem(Cell(name, "bfloat16", 16, "causal", "forward"), "cpu", 5)
    return made, {**{n: t.double() for n, t in made.leaves().items()}, **replaced}


def test_without_decay_gla_is_linear_attention():
    """With every gate open the state is the sum of all keys times values so far."""
    made, given = leaves("fla-gla")
    given["g"] = torch.zeros_like(given["g"])
    scores = (given["q"] * made.scale) @ given["k"].transpose(-2, -1)

    torch.testing.assert_close(fla_trials.reference(made, given), torch.tril(scores) @ given["v"])


def test_the_delta_rule_remembers_the_last_value_of_a_key():
    """Written twice under one key with full strength, only the second value is read back."""
    made, given = leaves("fla-gated-delta-rule")
    given["g"], given["beta"] = torch.zeros_like(given["g"]), torch.ones_like(given["beta"])
    given["k"] = torch.zeros_like(given["k"])
    given["k"][..., 0] = 1.0
    given["q"] = given["k"] / made.scale

    torch.testing.assert_close(fla_trials.reference(made, given), given["v"])


def test_rwkv7_without_removal_is_gla():
    """With a = 0 nothing is taken out of the state, and what is left is gated linear attention."""
    made, given = leaves("fla-rwkv7")
    given["a"] = torch.zeros_like(given["a"])
    other, _ = leaves("fla-gla")
    same = {name: given[name] for name in "qkv"}

    found = fla_trials.reference(made, given)
    torch.testing.assert_close(
        found, fla_trials.reference(other, {**same, "q": same["q"] / other.scale, "g": given["w"]})
    )


def test_gsa_reads_slots():
    """With values that are all one and open gates, reading any mixture of slots gives the slots' own sum."""
    made, given = leaves("fla-gsa")
    given["g"] = torch.zeros_like(given["g"])
    given["v"] = torch.ones_like(given["v"])
    out = fla_trials.reference(made, given)

    torch.testing.assert_close(out, out[..., :1].expand_as(out))


FP8_FORMS = ["dense", "causal", "gqa", "varlen", "window", "softcap"]


def in_eight_bits(form="dense", seed=3):
    cell = Cell("flash-attn-3", "float8_e4m3fn", 64, form, "forward")
    return problems.make_problem(cell, "cpu", seed, SIZES)


def judged_in_eight_bits(made, out):
    reference = truth.plain(made, torch.float64, truth.softmax_attention)
    limit = truth.limits(truth.yardstick(made, reference), made.cell.dtype)
    return truth.judge({"out": out}, {"out": out}, 12288.0, reference, limit, True)


def eight_bits(made, **scales):
    """What a kernel gives that takes these scales, and rounds as FlashAttention-3 does."""
    made.scales.update(scales)
    return truth.plain(made, torch.float32, truth.eight_bit_attention)["out"]


@pytest.mark.parametrize("form", FP8_FORMS)
def test_eight_bits_are_right(form):
    """What rounding the softmax's weights to float8 costs is no fault, and neither is what rounding q, k and v did."""
    made = in_eight_bits(form)

    assert made.q.dtype == torch.float8_e4m3fn
    assert judged_in_eight_bits(made, eight_bits(in_eight_bits(form)))["troubles"] == []
    assert judged_in_eight_bits(made, eight_bits(in_eight_bits(form)).double())["troubles"] == []


@pytest.mark.parametrize("form", FP8_FORMS)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_scale_that_is_not_taken_is_wrong(form, name):
    """A kernel that leaves a scale out is caught, whichever it is."""
    made = in_eight_bits(form)

    out = eight_bits(in_eight_bits(form), **{name: torch.ones_like(made.scales[name])})

    assert "error" in judged_in_eight_bits(made, out)["troubles"]


@pytest.mark.parametrize("form", FP8_FORMS)
def test_the_scale_of_another_head_is_wrong(form):
    """Heads differ in size: a kernel that takes the next head's scale of v is caught."""
    made = problems.make_problem(Cell("flash-attn-3", "float8_e4m3fn", 64, form, "forward"), "cpu", 3, (1, 8, 128))
    other = problems.make_problem(made.cell, "cpu", 3, (1, 8, 128))

    out = eight_bits(other, v=made.scales["v"].roll(1, dims=1))

    assert "error" in judged_in_eight_bits(made, out)["troubles"]


@pytest.mark.parametrize("form", FP8_FORMS)
def test_seven_per_cent_off_is_wrong_in_eight_bits(form):
    """float8 is held to less than what rounding one number to it may cost."""
    out = eight_bits(in_eight_bits(form))

    assert "error" in judged_in_eight_bits(in_eight_bits(form), out * 1.07)["troubles"]


def test_what_rounding_costs_does_not_grow():
    """The yardstick in float8 is 2 to 3 %, at any length: its weights are off by themselves, each on its own."""
    found = []
    for length in (64, 256, 1024):
        made = problems.make_problem(
            Cell("flash-attn-3", "float8_e4m3fn", 64, "dense", "forward"), "cpu", 3, (1, 2, length)
        )
        found.append(truth.yardstick(made, truth.plain(made, torch.float64, truth.softmax_attention))["out"])

    assert all(0.015 < error < 0.03 for error in found), found
