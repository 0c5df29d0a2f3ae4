"""Writes docs/pictures/*.svg: real runs, drawn by rich for light and dark pages. `python docs/make_pictures.py` in a
development environment; it takes half a minute, so that it is run by hand and not by docs/generate.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI
from rich.text import Text

FOLDER = Path(__file__).resolve().parent / "pictures"
WIDTH = 92
MODEL = """\
import torch
from flash_attn import flash_attn_func
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)
        self.scale_mul = nn.Parameter(torch.full((heads, 1), 4.0))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)

        q = F.normalize(q, dim=-1) * self.scale_mul
        k = F.normalize(k, dim=-1)
        return flash_attn_func(q, k, v).flatten(2)


def build():
    return nn.Sequential(Attention(), Attention(), Attention()), (torch.randn(2, 16, 64),)
"""
#: Name of the picture, and the command that it shows.
COMMANDS = {
    "check": ("attn-doctor", "check", "--gpu", "h100"),
    "trace": ("attn-doctor", "trace", "model.py:build", "--autocast", "fp16"),
}
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": DIMMED_MONOKAI}


def output(command: tuple[str, ...], folder: Path) -> str:
    """What the command writes to a terminal of that width, started in that folder with this environment as .venv."""
    environment = Path(sys.prefix)
    told = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "NO_COLOR")}
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env={**kept, **told, "HOME": str(folder)}
    )
    # No place of this machine, and no program of it: what a person would see who has it in ./.venv.
    return ended.stdout.replace(str(folder), "~/train").replace(str(environment), "~/train/.venv")


def drawn(name: str, command: tuple[str, ...], text: str, theme: str) -> str:
    """The SVG, without fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text(f"$ {' '.join(command)}", style="bold"))
    console.print(Text.from_ansi(text.rstrip()), soft_wrap=False)
    svg = console.export_svg(title="attn-doctor", theme=THEMES[theme], unique_id=f"attn-doctor-{name}-{theme}")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    label = f"Output of {' '.join(command)}"
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def main() -> None:
    """Runs each command once, and draws it in both themes."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "model.py").write_text(MODEL)
        (folder / ".venv").symlink_to(sys.prefix)
        for name, command in COMMANDS.items():
            text = output(command, folder)
            for theme in THEMES:
                (FOLDER / f"{name}-{theme}.svg").write_text(drawn(name, command, text, theme))


if __name__ == "__main__":
    main()
