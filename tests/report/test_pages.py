"""Pages for a browser: self-contained, harmless, the same facts as JSON; looked at in Chromium where there is one."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given

from attn_doctor.formats import report_v1
from attn_doctor.model.report import Report
from attn_doctor.report import picker
from attn_doctor.report.pages.page import STYLE
from attn_doctor.report.renderer import CHECK, TRACE, Manner
from tests import strategies
from tests.report.test_brief import CHECKED
from tests.report.traced import REPORT

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def page(report: Report) -> str:
    stream = io.StringIO()
    picker.pick(TRACE if report.trace else CHECK, "html").write(report, stream, Manner())
    return stream.getvalue()


class _Read(HTMLParser):
    """Elements that are open, every tag, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("report", [CHECKED, REPORT], ids=["check", "trace"])
def test_the_same_facts_as_json(report: Report) -> None:
    """Each finding with its places, remedies and commands, and each fact."""
    read = _Read(page(report))
    words = " ".join("".join(read.words).split())
    written = report_v1.to_json(report)

    for name, fact in written["facts"].items():
        assert name in words
        assert str(fact["value"]) in words or isinstance(fact["value"], (list, tuple))
    for one in written["findings"]:
        told = [one["id"], one["severity"], one["title"], one["why"]]
        told += [remedy["title"] for remedy in one["remedies"]]
        told += [
            command for remedy in one["remedies"] for action in remedy["actions"] for command in action["commands"]
        ]
        assert [text for text in told if " ".join(text.split()) not in words] == []
    assert read.open == []


def test_the_dtype_path() -> None:
    """Columns of q, k and v, the promoting expressions marked, and the counterfactual as a switch without a script."""
    text = page(REPORT)

    assert "<th>q</th><th>k</th><th>v</th>" in text
    assert "<mark>F.normalize(k, dim=-1)</mark>" in text
    assert '<span class="is">fp32 ✗</span><span class="cast">fp16</span>' in text
    assert '<input type="checkbox" class="switch" id="cast-0">' in text
    assert "once that is cast back, fp16 → fp32 again: parameter blocks.0.scale_mul (fp32)" in text


@given(one=strategies.reports)
def test_text_of_others_is_no_markup(one: Report) -> None:
    """Whatever a report holds: no script, nothing loaded from elsewhere, every element closed."""
    html = page(one)
    read = _Read(html)

    assert not read.tags & {"script", "img", "link", "iframe", "object", "form"}
    assert read.open == []
    assert not re.search(r"\bon\w+=|javascript:|url\(", html.replace(STYLE, ""))


def _luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * one for one in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme: int) -> None:
    """AA of WCAG for each pair of text and ground: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    block = re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL)[theme].replace("\n", "")
    colours = dict(re.findall(r"--(\w+):#(\w+)", block))
    pairs = [(text, ground) for text in ("fg", "dim", "bad", "warn", "ok") for ground in ("bg", "box")]
    for text, ground in (*pairs, ("b16t", "b16"), ("b32t", "b32"), ("markt", "mark")):
        light, dark = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


@pytest.mark.heavy
@pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [500, 800, 1600])
@pytest.mark.parametrize("report", [CHECKED, REPORT], ids=["check", "trace"])
def test_in_chromium(report: Report, width: int, tmp_path: Path) -> None:
    """The page is no wider than the window; what is wide scrolls within its own box."""
    measure = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script>"
    file = tmp_path / "page.html"
    file.write_text(page(report).replace("</body>", f"{measure}</body>"))
    shown = subprocess.run(
        [str(_CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1000", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    found = re.search(r"<title>(\d+) of (\d+)</title>", shown)

    assert found is not None
    assert int(found[1]) <= int(found[2])
