"""The words of a short log: a second opinion where patterns know a family, and what is near where they know nothing."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from attn_doctor.diagnose.log import by_words
from attn_doctor.formats import report_v1
from attn_doctor.machine import faults
from attn_doctor.model.exit_status import Status
from attn_doctor.model.report import Report
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.words import Ranked
from attn_doctor.report import language, picker
from attn_doctor.report.renderer import EXPLAIN, Manner
from attn_doctor.report.terminal import explain as page
from attn_doctor.workflows import explain as workflow
from attn_doctor.workflows.explain import ExplainRequest, explain
from tests.diagnose.log.making import made

CUT = "import torch\nRuntimeError: FlashAttention only supports Ampere GPUs o"
FAMILY = "kernel-refuses-this-gpu"


def told(text: str, **options: object) -> tuple[Report, str]:
    report = explain(ExplainRequest(texts=(text,), **options))  # type: ignore[arg-type]
    stream = io.StringIO()
    page.write(report, stream, verbose=False)
    return report, stream.getvalue()


def ids(text: str, **options: object) -> list[str]:
    return [one.id for one in told(text, **options)[0].diagnosis.findings]


def possible(text: str, **options: object) -> list[str]:
    return [one.id for one in told(text, **options)[0].diagnosis.findings if one.possible]


class Says:
    """In the place of the model: it always ranks the same."""

    def __init__(self, *ranked: tuple[str, float]) -> None:
        self.answer = tuple(Ranked(*one) for one in ranked)

    def ranked(self, _text: str) -> tuple[Ranked, ...]:
        return self.answer


def says(monkeypatch: pytest.MonkeyPatch, *ranked: tuple[str, float]) -> None:
    monkeypatch.setattr(by_words.words, "bundled", lambda: Says(*ranked))


class TestSecondOpinion:
    """Where a family leads that the words are not of: nothing is stated, and what is possible stands in order."""

    def test_a_message_that_was_cut(self) -> None:
        """No pattern of the cause has its end; its words are of no other trouble."""
        report, text = told(CUT)
        first, second = report.diagnosis.findings[:2]

        assert (first.id, first.by_words, first.possible) == ("gpu-before-ampere", True, True)
        assert (second.id, second.by_words, second.possible) == (FAMILY, False, True)
        assert report.exit_status == Status.HEALTHY  # it is no more than a note, as a family is
        assert "] not decided  the text:2  one of these, the likelier first" in text
        assert text.index("1       gpu-before-ampere: ") < text.index(f"2       {FAMILY} (family): ")
        assert "  check   " in text
        assert not {"  if so   ", "  fix     "} & {line[:10] for line in text.splitlines()}
        assert "what to do if so" in " ".join(text.split())  # with -v
        assert "open:" not in text
        assert len(text.splitlines()) <= 15

    def test_a_package_that_the_text_does_not_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Messages of two packages share most of their words: the words alone took one for the other's."""
        says(monkeypatch, ("flash-attn-not-installed", 0.9), ("native-library-of-bitsandbytes", 0.8))
        log = "ModuleNotFoundError: No module named 'bitsandbytes.cuda_setup.paths'"
        asked = f"{log}, wanted by the layers for FlashAttention"

        assert "flash-attn-not-installed" not in possible(log)
        assert "flash-attn-not-installed" in possible(asked)

    def test_a_notice_does_not_stand_before_what_ended_the_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The words of a log with many lines of a notice are mostly the notice's."""
        says(monkeypatch, ("optional-fast-path-missing", 1.0), ("gpu-before-ampere", -2.0))
        found = possible(
            "layers/block.py:40: UserWarning: xFormers is not available (Block)\n"
            "Traceback (most recent call last):\n"
            '  File "infer.py", line 33, in <module>\n'
            "    assert H % patch_H == 0\n"
            "AssertionError: Input image height 512 is not a multiple of patch height 14\n"
        )

        assert found == ["size-does-not-divide"]

    def test_it_is_written_and_read(self) -> None:
        written = report_v1.to_json(told(CUT)[0])
        again = report_v1.from_json(written).diagnosis.findings

        assert [(one.get("by_words"), one.get("possible")) for one in written["findings"]][:2] == [
            (True, True),
            (None, True),
        ]
        assert [(one.by_words, one.possible) for one in again][:2] == [(True, True), (False, True)]

    @pytest.mark.parametrize("form", ["text", "plain", "html", "markdown"])
    def test_every_page_says_what_that_means(self, form: str) -> None:
        stream = io.StringIO()
        picker.pick(EXPLAIN, form).write(told(CUT)[0], stream, Manner(verbose=True))
        shown = " ".join(stream.getvalue().split())

        assert "possible: no pattern of it stands in the log" in shown
        assert "possible: a family of causes, whose words stand in the log, which does not decide for it" in shown
        assert not re.search(r"(?i)\bfix \d|\bfix:", shown)
        assert re.search(r"(?i)\bif so\b", shown)

    def test_a_page_in_chinese(self) -> None:
        stream = io.StringIO()
        language.choose("zh")
        try:
            picker.pick(EXPLAIN, "plain").write(told(CUT)[0], stream, Manner(verbose=True))
        finally:
            language.choose("en")

        assert "若是 1" in stream.getvalue()
        assert "If so" not in stream.getvalue()

    def test_messages_of_two_texts_are_not_one_choice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is a message of its own."""
        says(monkeypatch, ("package-missing", -0.9))
        other = "ImportError: Please install FlashInfer to use its backend: pip install flashinfer-python"
        findings = explain(ExplainRequest(texts=(CUT, other))).diagnosis.findings

        assert not {"package-missing"} & {one.id for one in findings if one.possible}

    def test_what_an_unsafe_step_changes_is_said_of_what_is_possible_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """-v has the steps."""
        says(monkeypatch, ("gpu-before-ampere", 0.5))
        stream = io.StringIO()
        page.write(told(CUT, gpu="t4")[0], stream, verbose=True)

        assert "unsafe" in stream.getvalue()

    def test_words_that_agree_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("gpu-before-ampere", 0.5), ("nvcc-missing", 0.2), (FAMILY, -0.6))

        assert possible(CUT) == []

    def test_a_certain_family_stays_where_the_words_are_of_it_and_not_near(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        says(monkeypatch, ("torch-cpu-build", -0.9), ("weights-only-load-refused", -0.95))

        assert possible("import torch\n_pickle.UnpicklingError: Weights only load failed. You have two options") == []

    def test_a_family_that_is_among_the_nearest_and_far_from_the_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where all are far, to be the third says nothing."""
        says(monkeypatch, ("gpu-before-ampere", -0.75), ("nvcc-missing", -0.8), (FAMILY, -0.9))

        assert possible(CUT) == [FAMILY]
        assert ids(CUT) == [FAMILY]

    @pytest.mark.parametrize(
        ("scores", "order"),
        [
            ((-0.29,), ["gpu-before-ampere", FAMILY]),  # likelier than the family
            ((-0.31,), [FAMILY, "gpu-before-ampere"]),
            ((-0.69, -0.69), [FAMILY, "gpu-before-ampere"]),  # only the nearest is told from so far
            ((-0.71,), [FAMILY]),
            ((-0.1, -0.2, -0.3), ["gpu-before-ampere", "nvcc-missing", FAMILY]),
        ],
    )
    def test_the_likelier_first(
        self, monkeypatch: pytest.MonkeyPatch, scores: tuple[float, ...], order: list[str]
    ) -> None:
        says(monkeypatch, *zip(["gpu-before-ampere", "nvcc-missing", "gcc-too-new-for-nvcc"], scores, strict=False))

        assert possible(CUT) == order

    def test_a_family_alone_is_possible_and_a_check_stands_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("gpu-before-ampere", -0.9))
        report, text = told("ImportError: Please install FlashInfer to use its backend: pip install flashinfer-python")
        (finding,) = report.diagnosis.findings

        assert (finding.id, finding.possible) == ("package-missing", True)
        assert [finding.is_a_look(one) for one in finding.remedies][:3] == [True, False, True]
        assert "  possible family\n" in text
        assert "  check   " in text
        assert "  if so   " not in text

    def test_a_long_text_of_a_family_is_no_word_of_the_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Such families were wrong as often as right where the model did not name them; a notice stays one."""
        long = "torch\nOne of GPU archs of ['gfx1151'] is invalid or not supported with VLLM_ROCM_USE_AITER: 1"
        says(monkeypatch, ("nvcc-missing", -0.5))
        assert possible(long)[:1] == ["aiter-refuses"]

        says(monkeypatch, ("nvcc-missing", 0.4))
        assert possible(long) == ["nvcc-missing", "aiter-refuses"]
        went_on = f"{long}, falling back to the default"
        assert (ids(went_on)[0], possible(went_on)) == ("optional-fast-path-missing", [])

    def test_what_a_person_tells_is_no_rival_by_its_pattern(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It counts by its words alone, like what matches nowhere."""
        text = f"I think that my FlashInfer is not installed on this machine.\n{CUT}"
        says(monkeypatch, ("flashinfer-not-installed", -0.9))

        assert possible(text) == [FAMILY]

    def test_a_family_that_another_line_has_and_the_words_too_leads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = (
            "ImportError: Please install FlashInfer to use its backend: pip install flashinfer-python\n"
            "step 1\nstep 2\n"
            "RuntimeError: FlashAttention only supports Ampere GP"
        )
        says(monkeypatch, ("nvcc-missing", -0.9))
        before = ids(text)
        says(monkeypatch, (before[1], -0.9))

        assert possible(text)[:2] == [before[1], before[0]]
        assert [one.by_words for one in told(text)[0].diagnosis.findings][:2] == [False, False]

    def test_what_facts_speak_against_is_passed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A node that has an Ampere GPU has none before it; the next that is near is told."""
        says(monkeypatch, ("gpu-before-ampere", 0.5), ("nvcc-missing", 0.1))

        assert possible(CUT) == ["gpu-before-ampere", "nvcc-missing", FAMILY]
        assert possible(CUT, gpu="a100") == ["nvcc-missing", FAMILY]

    def test_a_wide_family_is_not_told_by_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its words stand in any message."""
        says(monkeypatch, ("packages-of-two-times", 0.9), ("host-out-of-memory", 0.8))

        assert possible(CUT) == [FAMILY]

    def test_a_complaint_stays_where_the_words_are_those_of_a_notice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("harmless-dtype-warning", 0.1))
        complaint = "The answer to any question is !!!!!!!!!!!!!!!!!!!!\n"
        notice = "INFO cuda.py:179] Cannot use FlashAttention-2 backend for Volta and Turing GPUs."
        assert possible(complaint + notice) == []
        assert ids(complaint + notice)[0] == "answers-are-exclamation-marks"

    def test_what_the_text_around_excludes_is_no_rival_by_its_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("nvcc-missing", 0.3))
        error = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
        told = "I have installed CUDA, and in docker build torch.cuda.is_available() returns false.\n"
        assert ids(error)[0] == "nvcc-missing"
        assert "nvcc-missing" not in ids(told + error)

    def test_what_lacks_words_around_that_it_needs_is_no_rival(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("tensorrt-llm-plugin-not-found", 0.3))
        error = "[TRT] [E] 3: getPluginCreator could not find plugin: GroupQueryAttention version: 1\n"
        assert "tensorrt-llm-plugin-not-found" not in ids(error)
        assert "tensorrt-llm-plugin-not-found" in ids("[TensorRT-LLM] TensorRT-LLM version: 0.9.0\n" + error)

    def test_a_cause_that_is_proven_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "ModuleNotFoundError: No module named 'flash_attn'"
        before = ids(text)
        says(monkeypatch, ("nvcc-missing", 0.9))

        assert (ids(text), possible(text)) == (before, [])

    def test_a_cause_that_is_proven_and_far_from_the_words_is_possible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of seven such was wrong in unread reports; what to do about it stays shown."""
        cause = "flash-attn-not-installed"
        text = "ModuleNotFoundError: No module named 'flash_attn'"
        says(monkeypatch, ("nvcc-missing", -0.3), (cause, -0.69))
        assert possible(text) == []

        says(monkeypatch, ("nvcc-missing", -0.3), (cause, -0.71))
        assert possible(text) == [cause]
        shown = told(text)[1]
        assert f"[error] {cause}  the text:1  possible" in shown
        assert "  if so   " in shown
        says(monkeypatch, (cause, -0.8), ("nvcc-missing", -0.9))  # nothing is nearer
        assert possible(text) == []

    def test_the_name_of_a_function_is_no_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It names the build that a file is of, which no word of another case does."""
        symbol = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        text = f"ImportError: /env/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: {symbol}"
        before = ids(text)[0]
        says(monkeypatch, ("nvcc-missing", -0.3), (before, -0.9))

        assert (ids(text)[0], possible(text)) == (before, [])

    def test_a_cause_that_is_likely_is_possible_where_the_words_are_not_of_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It stands first: of another cause the words alone know too little."""
        text = "RuntimeError: FlashAttention only support fp16 and bf16 data type"
        first = "fp32-model-without-autocast"
        says(monkeypatch, (first, 0.9), ("nvcc-missing", 0.8))
        before = ids(text)
        assert (before[0], possible(text)) == (first, [])

        says(monkeypatch, ("nvcc-missing", 0.9), (first, 0.8))
        assert ids(text) == before
        assert possible(text)[0] == first
        shown = told(text)[1]
        assert "  if so   Run this model in half precision" in shown
        assert "nvcc-missing" not in shown

    def test_a_log_that_is_not_known_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("nvcc-missing", 0.9))

        assert ids("import torch\nValueError: my own words") == ["exception-nobody-knows"]
        assert possible("import torch\nValueError: my own words") == []
        assert ids("nothing at all") == []

    def test_where_nothing_matches_what_is_near_enough_is_possible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The line that failed stays unknown, and is said to be; a log without one, or of other programs, has none."""
        log = "torch 2.6.0, vllm, flash-attn\nE: squash: group 7 is odd"
        says(monkeypatch, ("nvcc-missing", -0.9))
        assert ids(log) == []

        says(monkeypatch, ("nvcc-missing", -0.44), ("gpu-before-ampere", -0.59), ("gcc-too-new-for-nvcc", -0.61))
        report, text = told(log)
        assert possible(log) == ["nvcc-missing", "gpu-before-ampere"]
        assert [one.locations[0].line for one in report.diagnosis.findings] == [2, 2]
        assert "not known here: the text:2: E: squash: group 7 is odd" in " ".join(text.split())
        assert report.exit_status == Status.HEALTHY

        says(monkeypatch, ("nvcc-missing", -0.44))
        _, text = told(log)
        assert "what to do if so" in " ".join(text.split())
        assert "  fix     " not in text
        assert ids(log, skip=("nvcc-missing",)) == []
        assert ids("torch 2.6.0, vllm\nall is well") == []
        assert possible("torch 2.6.0, vllm\nall is well\nit does not start") == ["nvcc-missing"]  # a person says so
        assert ids("torch 2.6.0, vllm\n0 errors, build OK after 3 s, no errors") == []
        assert ids("postgres\nE: squash: group 7 is odd" + "\nretry" * 9) == []

    def test_a_recipe_that_was_not_asked_for_is_not_told(self) -> None:
        assert "gpu-before-ampere" not in ids(CUT, skip=("gpu-before-ampere",))

    def test_a_long_log_has_no_words_of_its_own(self) -> None:
        assert ids("step 1\n" * 10_000 + CUT) == [FAMILY]
        assert possible("step 1\n" * 10_000 + CUT) == []

    def test_a_model_that_cannot_be_read_costs_no_answer(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def broken() -> None:
            raise ValueError("damaged")

        monkeypatch.setattr(by_words.words, "bundled", broken)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with faults.collected():
            report, text = told(CUT)

        assert [one.id for one in report.diagnosis.findings] == [FAMILY]
        assert [one.part for one in report.own_faults] == ["reading of a log's words"]
        assert "Traceback" not in text


class TestNear:
    """Where nothing is known, or no more than the grammar of a message."""

    RAY, LOADER = made("no-free-gpu", {"pattern": "x"}), made("workers-end", {"pattern": "x"})

    def test_the_nearest_come_first_and_far_ones_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        says(monkeypatch, ("workers-end", -0.2), ("another", -0.3), ("no-free-gpu", -0.4))
        assert by_words.nearest("any", [self.RAY, self.LOADER]) == (self.LOADER, self.RAY)

        says(monkeypatch, ("workers-end", -0.8))
        assert by_words.nearest("any", [self.RAY, self.LOADER]) == ()

    def test_an_unknown_message_of_a_program_that_learns(self) -> None:
        """The family of jax has other words for it."""
        report, text = told("RuntimeError: Unknown backend gpu\njax does not see the GPU")

        assert next(one.id for one in report.nearest) == "jax-is-given-no-gpu"
        assert "not judged" in text
        assert " explain ID`" in text
        assert "  jax-is-given-no-gpu  JAX finds no GPU in this process" in text
        assert len(text.splitlines()) <= 15
        assert report_v1.to_json(report)["nearest"][0]["id"] == "jax-is-given-no-gpu"
        assert "{" not in text

    def test_what_is_found_is_not_near_as_well_and_the_command_stays_whole(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found, other = "windows-finds-no-program", "ffmpeg-not-found"
        typed = f"/home/{'u' * 90}/bin/attn-doctor explain ID"
        monkeypatch.setattr(page, "as_typed", lambda _command: typed)
        says(monkeypatch, ("nvcc-missing", -0.9))
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
            "postgres: FATAL: role does not exist\nretry\nretry\nretry\nretry\nretry\nretry\nretry\nretry",  # strange
            "ValueError: zzz yyy, torch",  # near to nothing
        ],
    )
    def test_nothing_is_offered(self, text: str) -> None:
        report, shown = told(text)

        assert report.nearest == ()
        assert "Nearest" not in shown

    def test_every_recipe_that_is_offered_can_be_explained(self) -> None:
        names = {one.id for one in (*shelf.bundled(), *shelf.families())}

        assert {one.id for one in told("RuntimeError: Unknown backend gpu\njax sees no GPU")[0].nearest} <= names
