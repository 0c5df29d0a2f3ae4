"""The frame of a page: its style for light, dark and paper, and what stands around its parts. Nothing is loaded from
elsewhere."""

from __future__ import annotations

from html import escape

from attn_doctor.machine.printable import harmless
from attn_doctor.report import language

#: Each pair of text and ground has a contrast of 4.5 or more: https://www.w3.org/TR/WCAG22/#contrast-minimum
STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1d2125;--dim:#57606a;--line:#d0d7de;--box:#f6f8fa;--bad:#b3001b;
--warn:#7a4b00;--ok:#116329;--b16:#dbeafe;--b16t:#0b3a75;--b32:#ffd9d9;--b32t:#7d0012;--mark:#fff1b8;--markt:#4a3500}
@media(prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e3e6ea;--dim:#a4adb8;--line:#3a414a;--box:#1e2329;
--bad:#ff8a8a;--warn:#f0c060;--ok:#7fd18f;--b16:#163a63;--b16t:#cfe4ff;--b32:#6b1620;--b32t:#ffdcdc;--mark:#5c4a00;
--markt:#fff1b8}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg);max-width:72rem;margin:0 auto;
padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin:2rem 0 .4rem}h3{font-size:1rem}
p,ul,ol,dl{margin:.4rem 0}.dim{color:var(--dim)}.error{color:var(--bad)}.warning{color:var(--warn)}.ok{color:var(--ok)}
section{border-top:1px solid var(--line)}
pre,.scroll{overflow-x:auto;background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.6rem}
pre{white-space:pre-wrap}code,pre,td.n,td.s,td.d{font-family:ui-monospace,monospace;font-size:.9em}
table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:left;vertical-align:top}
td.s{white-space:pre-wrap;width:100%;min-width:9rem}td.n,th{white-space:nowrap}td.n{color:var(--dim);text-align:right}td.d{white-space:nowrap;border-radius:4px}
.w16{background:var(--b16);color:var(--b16t)}.w32{background:var(--b32);color:var(--b32t);font-weight:600}
mark{background:var(--mark);color:var(--markt);text-decoration:underline}
details{margin:.5rem 0}summary{cursor:pointer}:focus-visible{outline:3px solid var(--b16t);outline-offset:2px}
.cast{display:none}.switch:checked~.scroll .is{display:none}.switch:checked~.scroll .cast{display:inline}
.switch:checked~.scroll .w32.undone{background:var(--b16);color:var(--b16t)}
table.facts td{border-top:1px solid var(--line);font-size:.85em}
textarea{width:100%;height:5rem;font-family:ui-monospace,monospace;background:var(--box);color:var(--fg);
border:1px solid var(--line)}a{color:var(--b16t)}dt{margin-top:.6rem}
@media print{details>*{display:block}body{max-width:none}}
"""


def page(title: str, body: str) -> str:
    """The whole file."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{text(title)}</title>'
    return (
        f'<!doctype html>\n<html lang="{language.code()}"><head>{head}<style>{STYLE}</style></head>\n'
        f"<body><main>\n{body}"
        "</main></body></html>\n"
    )


def text(words: str) -> str:
    """Words of others: no markup, no control characters."""
    return escape(harmless(words).encode(errors="replace").decode())


def tag(name: str, words: str, style: str = "") -> str:
    """An element with that text."""
    return f"<{name}{f' class={chr(34)}{style}{chr(34)}' if style else ''}>{text(words)}</{name}>\n"


def folded(summary: str, body: str, *, opened: bool = False) -> str:
    """A part that a reader opens."""
    return f"<details{' open' if opened else ''}><summary>{text(summary)}</summary>\n{body}</details>\n"
