"""Lines by which programs other than Python say that they failed."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose.log import error_lines
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.clean import clean
from attn_doctor.diagnose.log.error_lines import says_an_error
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families
from attn_doctor.report.terminal.explain import _leading
from attn_doctor.workflows.explain import ExplainRequest, explain

ERRORS = [
    'moon.cu(12): error: identifier "moon" is undefined',
    "moon.cpp(12): error C2065: 'moon': undeclared identifier",
    "nvcc fatal   : Moon option 'x' is unknown",
    "ptxas fatal   : Unresolved extern function 'moon'",
    "LINK : fatal error LNK1181: cannot open input file 'moon.lib'",
    "/usr/bin/ld: cannot find -lmoon",
    "x.cu:(.text+0x12): undefined reference to `moon'",
    "Undefined symbols for architecture arm64:",
    'loc("x"("f.py":12:3)): error: failed to legalize operation \'moon.op\'',
    "LLVM ERROR: Cannot select: moon",
    "Assertion failed: (moon), function f, file f.mm, line 12.",
    "/AppleInternal/x/MPSMoon.mm:705: failed assertion `[MPSMoon init] moon'",
    "EZ9999: Inner Error, moon!",
    "EH9999  [Init][Env]init env failed!",
    "[ERROR] RUNTIME(123,python):2024-01-01-10:00:00.000.000 [task_info.cc:12] moon",
    "call aclnnMoon failed, detail:EZ1001",
    "HIP error 98: moon",
    "CUBLAS error 13 at moon.cu:12",
    "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. Reason: moon.",
    "rocBLAS error: Cannot read moon.dat",
    "[TRT] [E] 10: Could not find any moon for node",
    "Error[10]: Internal Error (moon)",
    "thread 'main' panicked at src/moon.rs:12:5:",
    "error[E0433]: failed to resolve: use of undeclared crate moon",
    "panic: runtime error: moon out of range",
    '{"error":{"message":"moon not served","type":"MoonType","code":400}}',
    "F1126 10:00:00.000000 123 moon.cc:12] Check failed: moon == 1",
    "E0000 00:00:1732612345.123456 123 moon_dnn.cc:9261] Could not moon",
    "The code execution cannot proceed because MOON140.dll was not found.",
    "The procedure entry point moon could not be located in the dynamic link library moon.dll",
    "npm ERR! moon failed",
    "bash: moonrun: command not found",
    "Unsupported backend moon_marlin",
]
OTHERS = [
    "E0000 00:00:1732612345.123456 123 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register",
    "Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.",
    "Is this an error of the moon?",
    "0 errors, 2 warnings",
    "Error handling of the moon is described below",
    "flash-attn depends on torch and ninja",
    "The last line of the log is the error",
]
NOTICE = "transformers with torch\nSetting `pad_token_id` to `eos_token_id`:2 for open-end generation.\n\n"


@pytest.mark.parametrize("text", ERRORS)
def test_what_says_an_error(text: str) -> None:
    line = clean(1, text)
    assert says_an_error(line.text, line.level)


@pytest.mark.parametrize("text", OTHERS)
def test_what_says_none(text: str) -> None:
    line = clean(1, text)
    assert not says_an_error(line.text, line.level)


def test_a_family_on_an_error_line_leads_one_on_prose() -> None:
    text = "torch: the GPU is not supported by this ROCm\n\nc++: fatal error: csrc/moon.cpp: No such file or directory"
    found = explain_text(text, (*bundled(), *families()), FactSet()).diagnosis.findings

    assert found[0].locations[0].line == 3


def test_an_error_line_that_nothing_knows_is_said_and_leads_a_notice() -> None:
    report = explain(ExplainRequest(texts=(NOTICE + "rocSOLVER-moon\nUnsupported backend moon_marlin for moon\n",)))

    assert report.logs[0].unknown == "Unsupported backend moon_marlin for moon"
    assert _leading(report) or not report.diagnosis.findings[0].family


def test_the_last_word_of_a_step_is_no_known_failure() -> None:
    """The linker's own error above it, which nothing knows, is said."""
    report = explain(
        ExplainRequest(
            texts=(
                "import torch\n/usr/bin/ld: error: cannot squash group 7\ncollect2: error: ld returned 1 exit status",
            )
        )
    )

    assert report.diagnosis.findings[0].id == "linker-stops"
    assert report.logs[0].unknown == "/usr/bin/ld: error: cannot squash group 7"


def test_no_form_names_a_digit_but_0() -> None:
    """The others are read as 0, for lines that differ in their numbers are asked about once."""
    for form in (error_lines._AT_THE_START, error_lines._ANYWHERE):
        spelled = re.sub(r"\{\d*,?\d*\}", "", form.pattern)
        assert not re.search(r"[1-9]", spelled)
    assert error_lines.says_an_error("collect2: error: ld returned 1 exit status")
