"""Pages for a browser: self-contained, harmless, the same facts as JSON; looked at in Chromium where there is one."""

from __future__ import annotations

import dataclasses
import html
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given

from attn_doctor.formats import kernels_v1, report_v1
from attn_doctor.model.report import Report
from attn_doctor.report import picker
from attn_doctor.report.pages.page import STYLE
from attn_doctor.report.renderer import CHECK, TRACE, Manner
from tests import strategies
from tests.conftest import Doctor
from tests.fleet.reports import found, line
from tests.fleet.reports import report as on_node
from tests.report.test_brief import CHECKED
from tests.report.traced import REPORT

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def page(report: Report) -> str:
    stream = io.StringIO()
    picker.pick(TRACE if report.trace else CHECK, "html").write(report, stream, Manner())
    return stream.getvalue()


class _Read(HTMLParser):
    """Elements that are open, every tag, and the text."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(written)

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
    written = page(one)
    read = _Read(written)

    assert not read.tags & {"script", "img", "link", "iframe", "object", "form"}
    assert read.open == []
    assert not re.search(r"\bon\w+=|javascript:|url\(", written.replace(STYLE, ""))


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


SAID = "RuntimeError: FlashAttention only support fp16 and bf16 data type"


@pytest.fixture(scope="module")
def of_commands(doctor: Doctor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A page of each command that writes one."""
    folder = tmp_path_factory.mktemp("reports")
    nodes = [on_node(f"node{number:03d}", **{"packages.torch": "2.12.1"} if number < 3 else {}) for number in range(40)]
    (folder / "all.ndjson").write_bytes(
        b"".join(line(found(one) if number == 7 else one) for number, one in enumerate(nodes))
    )
    for number in (0, 9):
        (folder / f"{number}.json").write_bytes(line(nodes[number]))
    kernels = json.loads((Path(__file__).parent.parent / "probe" / "h200-kernels.json").read_text())
    return {
        "check": page(CHECKED),
        "trace": page(REPORT),
        "kernels": page(dataclasses.replace(CHECKED, kernels=kernels_v1.from_json(kernels))),
        "explain": doctor("explain", "--format", "html", "--", SAID).stdout,
        "compare": doctor("compare", folder / "0.json", folder / "9.json", "--format", "html").stdout,
        "fleet": doctor("fleet", "merge", folder / "all.ndjson", "--format", "html").stdout,
    }


#: Puts the page into a frame of a width, since Chromium's own window is never narrower than 500 pixels, and tells which
#: elements reach out of it, by how much, and how many words have too little contrast with what is behind them.
MEASURE = """<!doctype html><iframe id=f style="width:WIDTHpx;height:900px;border:0"></iframe><script>
const f = document.getElementById("f");
f.onload = () => {
  const inner = f.contentDocument, root = inner.documentElement;
  const within = one => one.closest(".scroll,pre,textarea,details:not([open])");
  const out = [...inner.querySelectorAll("body *")].filter(
    one => one.getBoundingClientRect().right > WIDTH + 1 && !within(one));
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = parse(c).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = one => { for (let at = one; at; at = at.parentElement) {
    const c = f.contentWindow.getComputedStyle(at).backgroundColor; const p = parse(c);
    if (c.startsWith("rgb") && (p.length < 4 || p[3] > .99)) return c; if (!c.startsWith("rgb")) return null; }
    return "rgb(255,255,255)"; };
  let faint = [];
  for (const one of inner.querySelectorAll("body *")) {
    if (![...one.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const back = ground(one); if (back === null) continue;
    const [a, b] = [light(f.contentWindow.getComputedStyle(one).color), light(back)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push(one.tagName + "." + one.className);
  }
  const over = root.scrollWidth - root.clientWidth, dark = light(ground(inner.body)) < .2;
  const told = {over, dark, out: out.map(o => o.tagName).slice(0, 5), faint: faint.slice(0, 5)};
  document.title = JSON.stringify(told);
};
f.srcdoc = PAGE;
</script>"""


@pytest.mark.heavy
@pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("command", ["check", "trace", "kernels", "explain", "compare", "fleet"])
def test_in_chromium(of_commands: dict[str, str], command: str, width: int, theme: str, tmp_path: Path) -> None:
    """Nothing is wider than the window but what scrolls within its own box, and every word can be read."""
    held = json.dumps(of_commands[command]).replace("</", "<\\/")
    file = tmp_path / "page.html"
    file.write_text(MEASURE.replace("WIDTH", str(width)).replace("PAGE", held))
    shown = subprocess.run(
        [str(_CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1700,1000", "--dump-dom",
         "--virtual-time-budget=5000",
         f"--blink-settings=preferredColorScheme={int(theme == 'light')}",
         f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    told = re.search(r"<title>(.*?)</title>", shown)

    assert told is not None
    measured = json.loads(html.unescape(told[1]))
    assert measured == {"over": 0, "dark": theme == "dark", "out": [], "faint": []}
