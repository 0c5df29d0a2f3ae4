"""Which settings a log shows as made, and that no first remedy asks for them once more."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.done import Done, settings_in
from attn_doctor.model.facts import FactSet
from tests.diagnose.log.making import made


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("$ python train.py --attn_implementation sdpa --bf16", "attention=sdpa"),
        ("export TORCH_SDPA=0", "TORCH_SDPA=0"),
        ("    model = AutoModel.from_pretrained(path, attn_implementation='eager')", "attention=eager"),
        ("I already set --enforce-eager, and it is the same", "--enforce-eager"),
        ("I already did export MOON_LIMIT=0.0 and it still happens", "MOON_LIMIT=0.0"),
        ("two cards; MOON_P2P_OFF=1 and MOON_IB_OFF=1 are set already", "MOON_P2P_OFF=1"),
        ("    --dtype half \\", "--dtype=half"),
        (
            "C:\\ComfyUI>.\\python_embeded\\python.exe main.py --use-split-cross-attention",
            "--use-split-cross-attention",
        ),
        ("我在参数里设置了--attn_impl eager，还是报错", "attention=eager"),
        ("os.environ['MOON_BACKEND'] = 'EAGER'", "os.environ MOON_BACKEND=EAGER"),
        ('os.environ.setdefault("MOON_BACKEND", "EAGER")', "os.environ MOON_BACKEND=EAGER"),
        ("12 os.environ['MOON_BACKEND'] = 'EAGER'", "os.environ MOON_BACKEND=EAGER"),
        ('pipe.enable_attention_slicing("max")', "enable_attention_slicing()"),
        ("加 `pipe.enable_attention_slicing()` 重跑，同样报错", "enable_attention_slicing()"),
        ("I tried enable_attention_slicing and it is the same", "enable_attention_slicing()"),
        (">>> os.putenv('MOON_BACKEND', 'EAGER')", "os.environ MOON_BACKEND=EAGER"),
        ("----> 3 os.environ['MOON_BACKEND'] = 'EAGER'", "os.environ MOON_BACKEND=EAGER"),
    ],
)
def test_what_was_typed_called_or_said_is_made(line: str, setting: str) -> None:
    """In one form, however it is spelled."""
    done = Done()
    done.see(line, 7)

    assert setting in done.told()[0]
    assert done.told()[1] == 7


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: load the model with attn_implementation='eager'",
        "Please use --no-half to disable it",
        "Set TORCH_USE_CUDA_DSA=1 to see more",
        "You can pass attn_implementation='sdpa' in from_pretrained(...)",
        "step=10 loss=2.1",
        "Please set os.environ['MOON_BACKEND'] = 'EAGER' before the import",
        "You can call pipe.enable_attention_slicing()",
        "# pipe.enable_attention_slicing()",
        "    def enable_attention_slicing(self, slice_size='auto'):",
        "# os.environ['MOON_BACKEND'] = 'EAGER'",
        "1" * 200 + " os.environ['MOON_BACKEND'] = 'EAGER'",  # as numbers of lines it can be cut in millions of ways
    ],
)
def test_advice_is_not_made(line: str) -> None:
    """A message that asks for a setting does not show it."""
    assert not set(settings_in(line))


def _first(text: str, *titles: str) -> str:
    remedies = [
        {"id": f"r{number}", "title": title, "safety": "safe", "actions": []} for number, title in enumerate(titles)
    ]
    seen = made("any", {"pattern": "boom", "confirms": True}, remedy=remedies)
    return explain_text(text, [seen], FactSet()).diagnosis.findings[0].remedies[0].title


def test_what_was_done_is_not_the_first_fix() -> None:
    """It comes last, and stays where nothing else is known; what has to go is no such setting."""
    done = "$ python run.py --no-cache\nRuntimeError: boom"
    assert _first(done, "Start it with --no-cache", "Another way") == "Another way"
    assert _first("RuntimeError: boom", "Start it with --no-cache", "Another way") == "Start it with --no-cache"
    assert _first(done, "Start it with --no-cache") == "Start it with --no-cache"
    assert _first(done, "Start it without --no-cache", "Another way") == "Start it without --no-cache"
    called = "pipe.enable_moonlight()\nRuntimeError: boom"
    assert _first(called, "In slices: pipe.enable_moonlight(), or --moon in a program", "Another way") == "Another way"


def test_what_the_log_tells_is_not_asked_first() -> None:
    """A command that only prints known facts comes last."""
    asks = {"kind": "advise", "text": "", "commands": ["python -c 'import torch; print(torch.__version__)'"]}
    remedies = [
        {"id": "ask", "title": "Look at torch's release", "safety": "safe", "actions": [asks]},
        {"id": "do", "title": "Do it", "safety": "safe", "actions": []},
    ]
    seen = made("any", {"pattern": "boom", "confirms": True}, remedy=remedies)

    def first(text: str) -> str:
        return explain_text(text, [seen], FactSet()).diagnosis.findings[0].remedies[0].id

    assert first("PyTorch version: 2.7.1\nRuntimeError: boom") == "do"
    assert first("RuntimeError: boom") == "ask"


def test_a_change_stays_the_first_fix_where_the_command_beside_it_prints_what_is_known() -> None:
    """The command only helps to find the right file."""
    asks = {"kind": "advise", "text": "", "commands": ["python -c 'import torch; print(torch.__version__)'"]}
    remedies = [
        {"id": "wheel", "title": "Take its wheel for this torch", "safety": "unsafe", "actions": [asks]},
        {"id": "do", "title": "Do it", "safety": "safe", "actions": []},
    ]
    for one in remedies:
        one.setdefault("why_this_safety", "It changes.")
    seen = made("any", {"pattern": "boom", "confirms": True}, remedy=remedies)
    told = explain_text("PyTorch version: 2.7.1\nRuntimeError: boom", [seen], FactSet())
    assert told.diagnosis.findings[0].remedies[0].id == "wheel"
