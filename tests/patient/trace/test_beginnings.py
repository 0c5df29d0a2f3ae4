"""Operands that were wide all along, a cache or a mask: the line that made them is a fact and stands in the report."""

import io
from pathlib import Path

from rich.console import Console

from attn_doctor.formats import trace_v1
from attn_doctor.model.facts import Known
from attn_doctor.probe.trace.trace_facts import facts_of
from attn_doctor.report.terminal import trace as trace_text
from tests.patient.trace.conftest import MODELS

FILE = Path(__file__).parent / "joined_models.py"


def read(traced, factory, **options):
    trace = trace_v1.read(traced(factory, **options))
    out = io.StringIO()
    trace_text.write(trace, Console(file=out, width=200), verbose=False)
    facts = {str(fact.name): fact.state for fact in facts_of(trace)}
    return out.getvalue(), facts["attention.0.began_place"]


def test_a_cache(traced):
    """k and v come from one allocation: it is told once, with its line."""
    text, began = read(traced, "cached", file=FILE)
    line = next(
        n for n, words in enumerate(FILE.read_text().splitlines(), 1) if words.endswith("# allocates the cache")
    )

    assert began == Known(f"{FILE}:{line}")
    assert text.count("torch.zeros made k, v fp16→fp32: buffer's own dtype") == 1
    assert f":{line}   cache = torch.zeros" in text


def test_a_mask(traced):
    """A mask that a call made is told by that call."""
    text, began = read(traced, "masked", kind="float32")

    assert isinstance(began, Known)
    assert str(began.value).startswith(f"{MODELS}:")
    assert "made mask fp32" in text


def test_what_was_promoted_is_told_by_its_promotion(traced):
    """No beginning is told beside it."""
    text, began = read(traced, "concatenated", file=FILE)

    assert not isinstance(began, Known)
    assert "from its beginning" not in text
