"""The pytest fixture `attention`: it passes what is sound and fails each planted fault with words."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

from attn_doctor.patient import assertions  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SDPA = functional.scaled_dot_product_attention
attention = assertions.Attention()


def causal(q, k, v):
    return SDPA(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def written(seen, **more):
    """Attention written out, over what `seen(length)` lets through."""

    def attend(q, k, v):
        scores = q @ k.transpose(-2, -1) * more.get("scale", q.shape[-1] ** -0.5)
        return scores.masked_fill(~seen(q.shape[2]), float("-inf")).softmax(-1) @ v

    return attend


def below(length, diagonal=0):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal)


def packed(q, k, v, documents):
    seen = documents[:, None, :, None] == documents[:, None, None, :]
    return SDPA(q, k, v, attn_mask=seen & below(q.shape[2]))


def varlen(q, k, v, starts):
    parts = [slice(a, b) for a, b in zip(starts.tolist(), starts.tolist()[1:], strict=False)]
    rows = [SDPA(*(one[part].transpose(0, 1) for one in (q, k, v)), is_causal=True) for part in parts]
    return torch.cat(rows, 1).transpose(0, 1)


def test_sound_ones_pass():
    attention.is_causal(causal)
    attention.is_causal(causal, dtypes=("bfloat16", "float16"), groups=2)
    attention.is_right(causal, causal=True, dtypes=("float32", "bfloat16", "float16"), groups=2)
    attention.is_right(SDPA)
    attention.is_right(
        lambda q, k, v: causal(*(one.transpose(1, 2) for one in (q, k, v))).transpose(1, 2), causal=True, layout="blhd"
    )
    attention.keeps_dtype(causal)
    attention.is_isolated(packed)
    attention.is_isolated(varlen, as_lengths=True)


class GradientLeaks(torch.autograd.Function):
    @staticmethod
    def forward(context, q, k, v):
        context.save_for_backward(q, k, v)
        return causal(q, k, v)

    @staticmethod
    def backward(context, gradient):
        with torch.enable_grad():
            leaves = [one.detach().requires_grad_(True) for one in context.saved_tensors]
            out = SDPA(*leaves)
        return torch.autograd.grad(out, leaves, gradient)


@pytest.mark.parametrize(
    ("check", "attend", "options", "said"),
    [
        ("is_causal", SDPA, {}, "a token reaches an earlier one: tokens 0 moved by tokens 1 to 23"),
        ("is_causal", written(lambda n: below(n, 1)), {}, "a token reaches an earlier one"),
        ("is_causal", written(lambda n: torch.eye(n, dtype=torch.bool)), {}, "the first token does not reach the last"),
        ("is_causal", GradientLeaks.apply, {}, "backward: k of tokens"),
        ("is_right", written(below, scale=0.3), {"causal": True}, "float32: out is off by"),
        ("is_right", SDPA, {"causal": True}, "out is off by"),
        ("is_right", GradientLeaks.apply, {"causal": True}, "dq is off by"),
        ("is_right", lambda q, k, v: SDPA(q, k, v) / 0, {}, "out is not finite"),
        ("keeps_dtype", lambda q, k, v: causal(q.float(), k.float(), v.float()), {}, "bfloat16 in, out is float32"),
        (
            "keeps_dtype",
            lambda q, k, v: causal(q.float(), k.float(), v.float()).to(q.dtype),
            {},
            "bfloat16 in, scaled_dot_product_attention gets {'q': 'float32'",
        ),
        ("is_isolated", lambda q, k, v, documents: causal(q, k, v), {}, "a document reaches another one"),
        ("is_isolated", lambda q, k, v, documents: v, {}, None),
        ("is_causal", lambda q, k, v: causal(q, k, v)[:, :, 1:], {}, "has no row for each of 24 tokens"),
    ],
)
def test_planted_faults_fail_with_words(check, attend, options, said):
    if said is None:
        getattr(attention, check)(attend, **options)
        return
    with pytest.raises(AssertionError, match=re.escape(said)):
        getattr(attention, check)(attend, **options)


def test_options_that_there_are_not():
    with pytest.raises(TypeError, match="no such option: shapes"):
        attention.is_causal(causal, shapes=(1, 2, 3, 4))


def test_the_fixture_runs_what_the_page_shows(tmp_path):
    page = (ROOT / "docs" / "watch.md").read_text()
    (shown,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "attention.is_causal" in one]
    (tmp_path / "test_shown.py").write_text(shown)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "attn_doctor.pytest_plugin", "-p", "no:cacheprovider",
         "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, timeout=120, cwd=ROOT,
        # An installation loads it by itself, and twice is an error.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_pytest_is_imported_by_the_plugin_alone():
    files = [
        file
        for file in (ROOT / "attn_doctor").rglob("*.py")
        if re.search(r"^\s*(import|from) pytest", file.read_text(), re.M)
    ]
    assert [file.name for file in files] == ["pytest_plugin.py"]
    assert 'attn_doctor = "attn_doctor.pytest_plugin"' in (ROOT / "pyproject.toml").read_text()
