"""What a message says by itself, whatever else a log's words are near to."""

from __future__ import annotations

import io

import pytest

from attn_doctor.diagnose.log import by_words
from attn_doctor.diagnose.log.ended import completed
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.recipes.data.words import Ranked
from attn_doctor.report.terminal import explain as page
from attn_doctor.workflows.explain import ExplainRequest, explain


def ids(text: str, **options: object) -> list[str]:
    return [one.id for one in explain(ExplainRequest(texts=(text,), **options)).diagnosis.findings]  # type: ignore[arg-type]


def first_fix(text: str, **options: object) -> str:
    findings = explain(ExplainRequest(texts=(text,), **options)).diagnosis.findings  # type: ignore[arg-type]
    remedy = findings[0].remedies[0]
    commands = [command for one in remedy.actions for command in one.commands]
    return "\n".join([remedy.title, *commands])


class Says:
    """In the place of the model: it always ranks the same."""

    def __init__(self, name: str, score: float) -> None:
        self.answer = (Ranked(name, score),)

    def ranked(self, _text: str) -> tuple[Ranked, ...]:
        return self.answer


MISSING = "vllm\nModuleNotFoundError: No module named 'moonlib'"


@pytest.mark.parametrize(("score", "possible"), [(-0.2, []), (0.1, ["nvcc-missing", "module-not-there"])])
def test_a_certain_message_is_stated_unless_words_are_of_another(
    monkeypatch: pytest.MonkeyPatch, score: float, possible: list[str]
) -> None:
    monkeypatch.setattr(by_words.words, "bundled", lambda: Says("nvcc-missing", score))
    findings = explain(ExplainRequest(texts=(MISSING,))).diagnosis.findings

    assert [one.id for one in findings if one.possible] == possible
    assert "module-not-there" in [one.id for one in findings]


def test_what_a_recipe_excludes_is_not_possible_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pattern stands there, and so does what says that it is something else."""
    monkeypatch.setattr(by_words.words, "bundled", lambda: Says("linear-dtype-mismatch", 0.9))
    text = "torch\nRuntimeError: expected m1 and m2 to have the same dtype, but got: long int != float"

    assert ids(text) == ["tensor-of-another-kind"]


@pytest.mark.parametrize(
    "path", ["/e/transformers/models/auto/", "/e/site-packages/t            ransformers/models/auto/"]
)
def test_a_model_type_of_a_release_is_told_with_it(path: str) -> None:
    """Also where a terminal broke the path of the frame."""
    text = (
        f"  File \"{path}configuration_auto.py\", line 623, in __getitem__\n    raise KeyError(key)\nKeyError: 'llama'"
    )

    assert "transformers >=4.28" in first_fix(text)


def test_a_type_of_no_release_has_a_package_of_its_own() -> None:
    text = (
        '  File "/e/transformers/models/auto/configuration_auto.py", line 623, in __getitem__\n'
        "    raise KeyError(key)\nKeyError: 'moonbeam'"
    )

    assert "registers moonbeam" in first_fix(text)


def test_an_assumed_gpu_tells_its_maker() -> None:
    """So that what is possible on another maker's alone is ruled out."""
    text = (
        "C:\\a\\stable-diffusion-webui>webui-user.bat\n"
        "RuntimeError: Torch is not able to use GPU; add --skip-torch-cuda-test to COMMANDLINE_ARGS variable"
    )

    assert "amdgpu" in first_fix(text, assumptions=("gpu.0.name=AMD Radeon RX 6800 XT",))
    assert "amdgpu" not in first_fix(text, assumptions=("gpu.0.name=NVIDIA GeForce RTX 3090",))


def test_no_other_package_is_installed_for_an_old_glibc() -> None:
    text = "moonlib-0.3-linux_x86_64.whl\nImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found"

    assert "flash-attn" not in first_fix(text)
    assert "newer system" in first_fix(text)


@pytest.mark.parametrize(
    "line",
    [
        "'llamafactory-cli' 不是内部或外部命令，也不是可运行的程序",
        "'llamafactory-cli' n'est pas reconnu en tant que commande interne ou externe",
        "'llamafactory-cli' no se reconoce como un comando interno o externo, programa o archivo por lotes ejecutable.",
        '"llamafactory-cli" не является внутренней или внешней\nкомандой, исполняемой программой',
        "Nazwa 'llamafactory-cli' nie jest rozpoznawana jako polecenie wewnętrzne lub zewnętrzne,",
        'Der Befehl "llamafactory-cli" ist entweder falsch geschrieben oder\nkonnte nicht gefunden werden.',
    ],
)
def test_a_command_that_is_none_in_the_users_language(line: str) -> None:
    assert ids(f"torch\n{line}") == ["command-is-not-there"]


@pytest.mark.parametrize(("lines", "answer"), [(5, ["module-not-there"]), (9, [])])
def test_what_python_says_of_any_program_is_answered(lines: int, answer: list[str]) -> None:
    """A log that shows nothing of a program that learns: the message says itself what it is of, unless many lines have
    nothing of Python's packages or GPUs either.
    """
    text = "\n".join(
        [
            *(f"2026-01-01 10:00:0{at} order {at} packed" for at in range(lines)),
            "ModuleNotFoundError: No module named 'shop'",
        ]
    )

    assert ids(text) == answer


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("dnf\n - nothing provides dkms needed by nvidia-driver-3:550.54", "conda-refuses-the-step"),
        ("JavaScript heap out of memory\nerror Command failed with exit code 134.", "process-ended-by-a-code"),
        ("Notes of torch errors:\nRemember: assert that the driver is new enough", "assertion-without-words"),
        (
            "torch\nImportError: cannot import name 'StrEnum' from 'enum' (/usr/lib/python3.10/enum.py)",
            "package-lacks-a-name",
        ),
    ],
)
def test_what_only_sounds_like_it(text: str, never: str) -> None:
    assert never not in ids(text)


def test_a_setting_of_a_models_own_code_is_no_type() -> None:
    """The look-up called it: the key is its own."""
    text = (
        '  File "/e/transformers/models/auto/configuration_auto.py", line 900, in from_pretrained\n'
        "    return config_class.from_dict(config_dict)\n"
        '  File "/home/a/.cache/modules/transformers_modules/moon/configuration_moon.py", line 40, in from_dict\n'
        "    self.tower = kwargs['clip']\nKeyError: 'clip'"
    )

    told = first_fix(text)

    assert "transformers >=4.6" not in told
    assert "registers clip" not in told


FRAMES = """\
Traceback (most recent call last):
  File "/a/b.py", line 3, in <module>
    from .moon import land
  File "/a/moon.py", line 9, in land
    fly(moon)"""


class TestATracebackWithoutItsEnd:
    def lines(self, text: str) -> list[Line]:
        return [Line(number, line) for number, line in enumerate(text.splitlines(), start=1)]

    @pytest.mark.parametrize(
        ("end", "marked"),
        [
            ("", "    fly(moon)"),
            ('\n  File "/a/mo', "    fly(moon)"),  # the next frame was begun
            ("\n    ^^^^^^^^^", "    fly(moon)"),
        ],
    )
    def test_it_is_said_behind_the_last_line_of_code(self, end: str, marked: str) -> None:
        made = completed(self.lines(FRAMES + end), whole=True)

        assert [line.text for line in made if "[cut off: the exception]" in line.text] == [
            f"{marked}  [cut off: the exception]"
        ]

    @pytest.mark.parametrize("end", ["\nValueError: no moon", "\nand then nothing came"])
    def test_another_end_is_none(self, end: str) -> None:
        assert completed(self.lines(FRAMES + end), whole=True) == self.lines(FRAMES + end)

    def test_the_end_of_a_window_is_no_end(self) -> None:
        """Of a large log only lines around a hit are read."""
        assert completed(self.lines(FRAMES)) == self.lines(FRAMES)

    def test_a_message_above_it_says_why(self) -> None:
        text = f"RuntimeError: the moon is down\n{FRAMES}"

        assert completed(self.lines(text), whole=True) == self.lines(text)

    @pytest.mark.parametrize(
        ("begun", "rest"),
        [
            ("OSError: libcufft.so.10: cannot open shared o", "bject file: No such file or directory"),
            ("RuntimeError: CUDA error: no kernel image is av", "ailable for execution on the device"),
            ("'nvcc' is not recognized as an intern", "al or external command"),
        ],
    )
    def test_a_known_message_is_ended_and_that_is_said(self, begun: str, rest: str) -> None:
        (line,) = completed(self.lines(begun), whole=True)

        assert line.text == f"{begun}{rest}  [cut off: {rest.strip()}]"

    @pytest.mark.parametrize(
        "whole",
        [
            "No such file or directory",
            "I cannot open it",
            "WARNING: layer type MoonLinear is not recognized",
            "it is not recognized as an internal",  # a word's end may be the sentence's
        ],
    )
    def test_what_is_whole_or_too_short_stays(self, whole: str) -> None:
        assert completed(self.lines(whole), whole=True) == self.lines(whole)

    def test_the_page_asks_for_the_missing_line(self) -> None:
        stream = io.StringIO()
        page.write(explain(ExplainRequest(texts=(f"torch\n{FRAMES}",))), stream, verbose=False)

        assert "traceback-cut-off" in stream.getvalue()
        assert "the line below the last frame" in " ".join(stream.getvalue().split())
