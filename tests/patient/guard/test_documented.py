"""What docs/watch.md shows of a loop and of tests runs as it stands there."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "watch.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_loop_runs(capsys):
    (loop,) = [one for one in BLOCKS if "optimizer.step()" in one]
    exec(compile(loop, "docs/watch.md", "exec"), {})

    said = capsys.readouterr().out
    assert said.startswith("[]\n")
    assert "rows beside float64, 0 wrong" in said
