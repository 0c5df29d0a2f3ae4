"""The node is asked once: no change to files alters its GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attn_doctor.workflows.fix import session


def test_after_a_change_the_node_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it, under the lock, and with other variables, it is."""
    asked = iter(range(9))

    class Questions:
        def __init__(self, *, folder: Path) -> None:
            self.folder, self.number = folder, next(asked)
            self.environment = dict(session.os.environ)

    monkeypatch.setattr(session, "NodeQuestions", Questions)
    nothing: Any = None
    one = session.Session(given=nothing, target=nothing, folder=tmp_path, configs=(), acceptances=())

    def number(name: str) -> Any:
        questions: Any = one._asked(name, tmp_path)
        return questions.number

    assert [number(name) for name in ("before", "after0", "after1", "locked", "after2")] == [0, 0, 0, 1, 1]
    monkeypatch.setenv("CUDA_HOME", "/another")
    assert [number("after3"), number("after4")] == [2, 2]
