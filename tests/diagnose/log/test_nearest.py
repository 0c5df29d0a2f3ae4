"""What a message that nobody knows is nearest to, by its words; never a finding."""

from __future__ import annotations

import io

import pytest

from attn_doctor.diagnose.log.nearest import nearest
from attn_doctor.formats import report_v1
from attn_doctor.model.report import Report
from attn_doctor.recipes import shelf
from attn_doctor.report.terminal import explain as page
from attn_doctor.workflows import explain as workflow
from attn_doctor.workflows.explain import ExplainRequest, explain
from tests.diagnose.log.making import made

RAY = made("no-free-gpu", {"pattern": "x"}, title="Ray has no free GPU left in the placement group")
LOADER = made("workers-end", {"pattern": "x"}, title="A DataLoader worker was killed for memory")
WHERE = made("where", {"pattern": "x", "wrapper": True}, title="Ray placement group of a GPU")


def told(text: str) -> tuple[Report, str]:
    report = explain(ExplainRequest(texts=(text,)))
    stream = io.StringIO()
    page.write(report, stream, verbose=False)
    return report, stream.getvalue()


def test_the_words_decide() -> None:
    failed = "RuntimeError: the placement group of ray needs a GPU that is not free"

    assert nearest(failed, [RAY, LOADER, WHERE]) == (RAY,)
    assert nearest("RuntimeError: dataloader worker killed", [RAY, LOADER, WHERE]) == (LOADER,)
    assert nearest("OSError: disk quota", [RAY, LOADER, WHERE]) == ()
    assert nearest("", [RAY, LOADER, WHERE]) == ()


def test_what_only_says_where_is_not_offered() -> None:
    assert nearest("a GPU of a placement group in ray is not free", [WHERE, LOADER, RAY]) == (RAY,)


def test_an_unknown_message_of_a_program_that_learns() -> None:
    """The family of jax has other words for it."""
    report, text = told("RuntimeError: Unknown backend gpu\njax does not see the GPU")

    assert [one.id for one in report.nearest] == ["jax-is-given-no-gpu"]
    assert "not judged" in text
    assert " explain ID`" in text
    assert "  jax-is-given-no-gpu  JAX finds no GPU in this process" in text
    assert len(text.splitlines()) <= 15
    assert report_v1.to_json(report)["nearest"][0]["id"] == "jax-is-given-no-gpu"
    assert "{" not in text


def test_what_is_found_is_not_near_as_well_and_the_command_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    found, other, typed = "windows-finds-no-program", "ffmpeg-not-found", f"/home/{'u' * 90}/bin/attn-doctor explain ID"
    monkeypatch.setattr(page, "as_typed", lambda _command: typed)
    monkeypatch.setattr(
        workflow, "nearest", lambda _text, recipes: tuple(one for one in recipes if one.id in (found, other))
    )
    report, text = told(
        "train.py with torch\nFileNotFoundError: [WinError 2] The system cannot find the file specified"
    )

    assert [one.id for one in report.diagnosis.findings] == [found]
    assert [one.id for one in report.nearest] == [other]
    assert typed in text


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: FlashAttention only support fp16 and bf16 data type",  # known
        "postgres: FATAL: role does not exist\nretry\nretry\nretry\nretry\nretry\nretry\nretry\nretry",  # a stranger's
        "ValueError: my own words, torch",  # near to nothing
    ],
)
def test_nothing_is_offered(text: str) -> None:
    report, shown = told(text)

    assert report.nearest == ()
    assert "Nearest" not in shown


def test_every_recipe_that_is_offered_can_be_explained() -> None:
    names = {one.id for one in (*shelf.bundled(), *shelf.families())}

    assert {one.id for one in told("RuntimeError: Unknown backend gpu\njax does not see the GPU")[0].nearest} <= names
