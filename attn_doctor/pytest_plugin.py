"""The pytest fixture `attention`: assertions about an attention function, for the tests of a library.

pytest loads this file where attn-doctor is installed beside it; torch is loaded when the fixture is used.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def attention() -> Any:
    """Asserts that an attention function is causal, isolated, right beside float64, and keeps its dtype.

    `attention.is_causal(attend)`, `.is_isolated(attend)`, `.is_right(attend, causal=True)`, `.keeps_dtype(attend)`;
    `attend(q, k, v)` returns the output. docs/watch.md has the options.
    """
    pytest.importorskip("torch")
    from attn_doctor.watching import load_inside

    load_inside()
    from _attn_doctor_patient import assertions

    return assertions.Attention()
