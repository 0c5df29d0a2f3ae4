"""What bench/harvest_messages.py takes from sources and libraries: made-up ones; no registry is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import harvest_messages
from bench.harvest_messages import Message, of_binary, of_cxx, of_python, read


def texts(found: Iterator[tuple[int, str, str]]) -> list[tuple[str, str]]:
    return [(kind, text) for _line, kind, text in found]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError(f'got {x.dtype} only')", ("ValueError", "got {x.dtype} only")),
        ("raise a.b.Refused(src, node, 'no ' + kind)", ("Refused", "no {x}")),
        ("text = 'a head of %d'\nraise TypeError(text % 3)", ("TypeError", "a head of %d")),
        ("assert x, 'no bf16'", ("AssertionError", "no bf16")),
        ("torch._check(x > 0, lambda: f'mask of {n}')", ("RuntimeError", "mask of {n}")),
        ("torch._check_value(x > 0, 'mask')", ("ValueError", "mask")),
        ("warnings.warn('slow', stacklevel=2)", ("UserWarning", "slow")),
        ("warn('slow')", ("UserWarning", "slow")),
        ("logger.warning('no %s', x)", ("WARNING", "no %s")),
    ],
)
def test_python(source: str, said: tuple[str, str]) -> None:
    """Whatever is printed, with its slots."""
    assert texts(of_python(source)) == [said]


@pytest.mark.parametrize(
    "source", ["raise", "raise ValueError", "raise ValueError(3)", "check('x')", "error('x')", "x ="]
)
def test_python_without_a_message(source: str) -> None:
    """Nothing is said where no string is."""
    assert not texts(of_python(source))


def test_cxx() -> None:
    """The condition is left out, what is streamed is a slot."""
    source = 'TORCH_CHECK(x == 1, "expected ", n, " heads");\n#error "no CUDA"\n'

    assert texts(of_cxx(source)) == [
        ("RuntimeError", "expected {n} heads"),
        ("file.h:12: error: #error", '"no CUDA"'),
    ]


def test_strings_of_a_library() -> None:
    """Sentences that refuse something; one that is cut off before a value gets a slot; code and names are none."""
    library = (
        b"\x7fELF\x00\x01Pinned memory requires CUDA here.\x00_ZN2at6native7flashERKNS_6TensorE\x00"
        b"expected mat1 to have the same dtype \x00impl_->ok() INTERNAL ASSERT FAILED at a file\x00"
        b"flash(Tensor q) -> Tensor must\x00The number of heads of it all\x00\x02\x03"
    )

    found = list(of_binary(library))

    assert [text for _at, _kind, text in found] == [
        "Pinned memory requires CUDA here.",
        "expected mat1 to have the same dtype {dtype}",
    ]
    assert all(library[at:].startswith(text[:20].encode()) for at, _kind, text in found)


def test_a_tree_speaks_of_our_subjects_once() -> None:
    """Tests, other subjects and repetitions are left out; of some packages everything is our subject."""
    files = [
        ("made/a.py", b"raise ValueError('attention needs fp16')\nraise ValueError('the window is too small')"),
        ("made/b.py", b"raise ValueError('attention needs fp16')"),
        ("made/tests/test_a.py", b"raise ValueError('attention needs fp32')"),
        ("made/lib.so", b"\x00this head_dim is not supported\x00"),
        ("made/notes.txt", b"raise ValueError('attention needs bf16')"),
    ]

    assert [one.text for one in read("made", "1", iter(files))] == [
        "attention needs fp16",
        "this head_dim is not supported",
    ]
    assert "the window is too small" in {one.text for one in read("triton", "1", iter(files))}


def test_slots_are_filled() -> None:
    """As a log would have it."""
    one = Message("made", "1", "made/a.py:3", "ValueError", "{q.dtype} on {device}, %d heads")

    assert one.filled() == "ValueError: torch.float32 on cuda:0, 192 heads"


def test_a_folder_is_read_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no pattern catches, and how many are caught."""
    source = tmp_path / "made"
    source.mkdir()
    (source / "a.py").write_text(
        "raise RuntimeError('FlashAttention only supports Ampere GPUs or newer.')\n"
        "raise ValueError('my dtype, my rules')\n"
        "raise RuntimeError('the quorx kernel wants its dtype in bfloat16')\n"
    )
    harvest = tmp_path / "harvest"
    monkeypatch.setattr("sys.argv", ["harvest", "read", str(harvest), f"made={source}"])
    harvest_messages.main()
    monkeypatch.setattr("sys.argv", ["harvest", "list", str(harvest)])
    capsys.readouterr()

    harvest_messages.main()

    shown = capsys.readouterr()
    assert "my dtype, my rules" in shown.out
    assert "the quorx kernel" in shown.out  # the family of any exception says that it is not known
    assert "Ampere" not in shown.out
    assert "1 of 3 are caught" in shown.err
