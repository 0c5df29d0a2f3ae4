"""Chinese: the locale's choice, a Chinese text for each English one, the same slots, and columns that line up."""

from __future__ import annotations

import ast
import io
import re
import string
from collections.abc import Iterator
from pathlib import Path
from unicodedata import east_asian_width

import pytest

import attn_doctor
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.there_already import IN_THE_PYTHON_THAT_RUNS
from attn_doctor.errors import BadInput
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Finding, Location, Remedy, Safety, Severity
from attn_doctor.model.kinds import KINDS
from attn_doctor.model.outcomes import TraceVerdict
from attn_doctor.model.plans import Reversal
from attn_doctor.model.remedies import Advise, ProposedAction
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes import shelf, translation
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.data.programs import ways
from attn_doctor.report import language, picker
from attn_doctor.report.language import catalogue, translated
from attn_doctor.report.renderer import CHECK, TRACE, Kind, Manner, Media
from attn_doctor.report.terminal import recipe as recipe_page
from attn_doctor.report.words.cells import cells, cut, padded, spans, wrapped
from tests.report.traced import REPORT

HOUSE = Path(attn_doctor.__file__).parent
#: Endings of English words, which Chinese does without.
_PLURALS = {"es", "s", "plural", "several"}
#: Functions whose label is said where it is written.
_LABELLED = {"_row", "row", "_remedy", "remedy", "_titled"}


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", stream)
    language.choose("zh")
    yield
    language.choose("en")


@pytest.mark.parametrize(
    ("variables", "spoken"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.GB18030"}, "zh"),
        ({"LANG": "zh_SG"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh_Hans_CN.UTF-8@x"}, "zh"),
        ({"LANG": "zh_TW.UTF-8"}, "en"),
        ({"LANG": "zh_HK.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en_US:zh"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh"),
        ({"LANG": "C", "LANGUAGE": "zh_CN"}, "en"),
    ],
)
def test_the_locale_chooses(variables: dict[str, str], spoken: str) -> None:
    assert language.of_locale(variables) == spoken


class TestChoice:
    @pytest.fixture(autouse=True)
    def _afterwards(self) -> Iterator[None]:
        yield
        language.choose("en")

    @pytest.mark.parametrize(("encoding", "spoken"), [("utf-8", True), ("gb18030", True), ("ascii", False)])
    def test_a_stream_without_chinese_gets_english(
        self, encoding: str, spoken: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        language.choose("zh")
        assert language.speaks_chinese() is spoken

    def test_programs_get_english(self) -> None:
        language.choose("zh", for_program=True)
        assert not language.speaks_chinese()

    def test_the_option_goes_before_the_locale(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
        language.choose("en")
        assert language.say("nothing wrong found") == "nothing wrong found"

    def test_another_language_is_refused(self) -> None:
        with pytest.raises(BadInput, match="does not speak"):
            language.choose("fr")


def _said() -> Iterator[str]:
    """Each text that is given to `say`, or is a label that a row says, in the files that speak."""
    for file in sorted(HOUSE.rglob("*.py")):
        text = file.read_text()
        if "report.language import" not in text and "report import language" not in text:
            continue
        for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
            function = call.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            here = call.args[:1] if name in ("say", "to_say") else call.args[:2] if name in _LABELLED else []
            for argument in here:
                both = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
                yield from (one.value for one in both if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _words() -> set[str]:
    """What is said by its value: severities, states, headings of listings."""
    enums = (Severity, Safety, Reversal, TraceVerdict)
    values = {str(one.value) for enum in enums for one in enum} - {"promoted then repaired"}
    return values | {one.heading for one in KINDS if one.heading}


def test_every_text_has_a_chinese_one() -> None:
    assert sorted({*_said(), *_words()} - {"", *catalogue.texts()}) == []


def test_no_chinese_text_is_left_of_an_english_one_that_is_gone() -> None:
    strings = {
        node.value
        for file in HOUSE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [one for one in catalogue.texts() if one not in strings] == []


def test_what_a_program_s_user_can_do_has_a_chinese_text() -> None:
    """The remedies that are put before those of recipes, and what the log's code writes itself."""
    there = {english for english, _ in catalogue.patterns()}
    texts = [
        one for way in ways().values() for one in (way.title, way.why_this_safety, *(a.advice for a in way.actions))
    ]

    assert sorted({*texts} - {"", *there}) == []


def test_a_package_that_the_log_has_is_said_in_chinese() -> None:
    """Title, look and hint, which the code makes of what a log says."""
    log = "flash_attn 2.5.8\n$ python a.py\nModuleNotFoundError: No module named 'flash_attn'\n"
    found = explain_text(log, shelf.bundled(), FactSet()).diagnosis.findings[0]
    spoken = translated.finding(found)
    look = spoken.remedies[0]
    words = [spoken.title, look.title, look.why_this_safety, *(one.action.advice for one in look.actions)]

    assert look.id == IN_THE_PYTHON_THAT_RUNS
    assert [one for one in words if not re.search(r"[\u4e00-\u9fff]", one) or "the log" in one] == []


def test_slots_are_the_same() -> None:
    def slots(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    texts = catalogue.texts()
    strange = {one: slots(one) ^ slots(chinese) for one, chinese in texts.items() if slots(one) ^ slots(chinese)}
    assert {one: names for one, names in strange.items() if names - _PLURALS or not slots(one) >= names} == {}
    assert [one for one, zh in catalogue.patterns() if {*TEMPLATE.findall(one)} != {*TEMPLATE.findall(zh)}] == []


def _written(report: Report, kind: Kind[Report], form: str) -> str:
    stream = io.StringIO()
    picker.pick(kind, form).write(report, stream, Manner())
    return stream.getvalue()


def _report() -> Report:
    recipe = next(one for one in shelf.bundled() if one.id == "use-bf16" or one.id == "fp16-overflow-nan")
    first = next(one for one in recipe.remedies if one.id == "use-bf16")
    finding = Finding(
        id=recipe.id,
        severity=Severity.ERROR,
        title=recipe.title,
        why=recipe.why,
        locations=(Location(file="/home/张三/训练/model.py", line=3),),
        remedies=(
            Remedy(
                id=first.id,
                title=first.title,
                safety=first.safety,
                actions=tuple(ProposedAction(action=one) for one in first.actions if isinstance(one, Advise)),
            ),
        ),
    )
    return replace(REPORT, command="check", trace=None, diagnosis=Diagnosis(findings=(finding,), cleared=("b",)))


@pytest.mark.parametrize("form", [*picker.names(CHECK)])
def test_machine_formats_are_unchanged(form: str, monkeypatch: pytest.MonkeyPatch, chinese: None) -> None:
    spoken = _written(_report(), CHECK, form)
    with language.in_english():
        english = _written(_report(), CHECK, form)
    renderer = picker.pick(CHECK, form).renderer
    if renderer.media is Media.PROGRAM or form == "github":
        token = re.compile("attn-doctor-[0-9a-f]{16}")  # another one each time
        assert token.sub("", spoken) == token.sub("", english)
    else:
        assert spoken != english
        assert "超出了 fp16 的范围" in spoken
        assert "bfloat16" in spoken
        assert "numbers are NaN" not in spoken
        assert "训练/model.py" in spoken


def test_html_names_its_language(chinese: None) -> None:
    assert '<html lang="zh-CN">' in _written(_report(), CHECK, "html")
    with language.in_english():
        assert '<html lang="en">' in _written(_report(), CHECK, "html")


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("kind", [CHECK, TRACE])
def test_no_line_is_wider_than_the_screen(
    width: int, kind: Kind[Report], monkeypatch: pytest.MonkeyPatch, chinese: None
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    report = _report() if kind is CHECK else REPORT
    for line in _written(report, kind, "text").splitlines():
        whole = " $ " in line or "/" in line  # paths and commands are there to be copied
        assert whole or _columns(line) <= width, line


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def test_labels_line_up(monkeypatch: pytest.MonkeyPatch, chinese: None) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = _written(_report(), CHECK, "text")
    row = next(line for line in text.splitlines() if line.startswith("    修复"))
    assert _columns(row[: row.index("用 bfloat16")]) == 9


class TestCells:
    @pytest.mark.parametrize(
        ("text", "width"), [("fp16", 4), ("精度", 4), ("自动混合精度（autocast）", 24), ("e\u0301", 1), ("", 0)]
    )
    def test_columns(self, text: str, width: int) -> None:
        assert cells(text) == width

    def test_padded_and_cut(self) -> None:
        assert padded("修复", 7) == "修复   "
        assert cut("显存不足", 5) == "显存"
        assert cut("memory", 3) == "mem"

    @pytest.mark.parametrize("width", [40, 80])
    def test_every_cause_of_the_shelf_fits(self, width: int) -> None:
        """Half of the shelf in each width: what is tried is the wrapping, and each text costs milliseconds."""
        for recipe in (*shelf.bundled(), *shelf.families())[width // 80 :: 2]:
            for _, text in translation.pairs(recipe):
                lines = wrapped(text, width)
                assert "".join("".join(lines).split()) == "".join(text.split())
                assert not [line for line in lines if line[0] in "，。、；：）" or line[-1] in "（“"]
                for line in lines:
                    assert _columns(line) <= width or len(list(spans(line, 2))) == 1 or not _breakable(line), line

    @pytest.mark.parametrize(
        "whole",
        [
            "/home/张三/训练/attention.py:12",
            "https://docs.pytorch.org/docs/stable/a",
            "./模型/x.py",
            "CUDA_HOME=/opt/cuda",
        ],
    )
    def test_a_path_is_never_broken(self, whole: str) -> None:
        text = f"在这里可以看到把类型提升的代码 {whole} 以及随后的调用，所以要修改。"
        for width in range(10, 70, 7):
            assert any(whole in line for line in wrapped(text, width))

    def test_a_slash_between_words_is_no_path(self) -> None:
        assert len(wrapped("训练/推理时需要注意" * 4, 20)) > 3


def _breakable(line: str) -> bool:
    """Whether a break was possible before the last part that does not fit."""
    ends = [end for _, end in spans(line, 1)]
    return len(ends) > 2


class TestFindings:
    """Of texts that are filled in already, as a report of another node has them."""

    def chinese(self, id_: str, title: str) -> str:
        return translated.text_of(id_, title)

    def test_values_go_to_their_places(self) -> None:
        told = self.chinese("driver-too-old", "The NVIDIA driver 470.1 is older than CUDA 12.8 needs")
        assert told == "NVIDIA 驱动 470.1 低于 CUDA 12.8 的要求"

    def test_what_is_not_known_leaves_no_hole(self) -> None:
        told = self.chinese("gpu-before-ampere", "flash-attn 2 does not run on a GPU of this compute capability")
        assert told == "flash-attn 2 不能在该计算能力的 GPU 上运行"

    def test_another_release_s_words_stay(self) -> None:
        assert self.chinese("driver-too-old", "Some other words") == "Some other words"
        assert self.chinese("no-such-recipe", "Some words") == "Some words"


@pytest.mark.usefixtures("chinese")
def test_a_recipe_of_its_own_shows_where_a_node_would_be_named() -> None:
    """`explain ID` knows no node: an ellipsis stands for what one would say."""
    stream = io.StringIO()
    recipe_page.write(next(one for one in shelf.bundled() if one.id == "nvcc-too-old"), stream)

    assert "…，位于 …" in stream.getvalue()
