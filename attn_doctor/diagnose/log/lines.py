"""Turns chunks of text into numbered lines. Undoes a terminal's hard line breaks and cuts endless lines into pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attn_doctor.diagnose.log.clean import ANSI
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.quick_patterns import when_used

#: (line of the log, text)
Raw = tuple[int, str]

#: A longer line of the log is examined in pieces, so that an endless line needs bounded memory.
PIECE = 2048
_OVERLAP = 300
#: The part of a piece that does not overlap the one before.
STEP = PIECE - _OVERLAP
_CHUNK = 2 << 20
#: Lines of a text that is a comment as a whole: a title alone may begin with the same mark.
_FEWEST_COMMENTED = 3
#: Lines at the end of a block that are examined with the next one.
_KEPT = 6
_WIDTHS = range(70, 321)
#: So many lines of the full width, or lines that begin alike, are no chance.
_FEW = 3
_HEAD = 6
#: Lines around one of the full width that it is compared with.
_AROUND = 200
_DIGITS = when_used(r"\d+")
#: A message after dots or numbers that were printed without a line end.
_GLUED = when_used(
    r"(?<![\w\"'`(\[{:])(?:[a-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception): (?=\S)|(?<!\")Traceback \(most recent"
)
_SIGNS = ("Error: ", "Exception: ", "Traceback (most recent")
_JSON_END = when_used(r"\"\s*[}\]]+\s*,?\s*$")
#: `C:\Users\ann\new\x.cu`, also as repr() writes it: no line ends there.
_FOLDER_ON_A_DRIVE = when_used(r"\b[A-Za-z]:(?:\\{1,2}[\w.() -]{1,60}){0,8}\\{1,2}n\w")
#: docker's json-file: each line of the program is a record, with its line end.
_ONE_LINE_OF_JSON = when_used(r'\{"(?:[^"\\]|\\[^n]|"(?!(?:stream|time|attrs)"))*\\n",')
#: A traceback whose line ends became blanks where it was pasted: its parts get lines of their own.
_FLAT = 'most recent call last): File "'
_FLAT_END = when_used(
    r'(?<=call last\):) (?=File ")|(?<=\S) (?=File "[^"]{1,300}", line \d+, in )'
    r"|(?<=\S) (?=(?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): \S)"
)
_NEW_RECORD = when_used(
    r'\s*(?:[│┃|╭╰]|=> |\[|\(|\d{4}-|Traceback |File "|\w+\.\w+:\d'
    r"|[A-Z]\w*(?:Error|Warning|Exception)\b|(?:Error|Warning|Exception): "
    r"|(?:/\S{1,80}/)?(?:[\w-]{1,30}-)?ld: |collect2: |error: |$)"
)
#: What people write below an error that they paste: their releases, their machine, a sentence. A line that a terminal
#: broke goes on with the rest of a word, or behind a blank.
_WRITTEN_BELOW = when_used(
    r"(?:I|I'm|We|My|GPU|RTX|CUDA|Python|PyTorch|Windows|Ubuntu|Linux)\b[ ,:](?!\()"
    r"|(?:torch|pytorch|transformers|flash[-_]attn|vllm|triton|xformers|bitsandbytes|deepspeed|peft|trl|accelerate|python)"
    r"[ ,:=]|(?:with|without|using|what|when|please|attn) "
)
_CLOSED = ("'", '"', ")", "]")
#: A notice and what came later, told in one sentence. What stands behind a colon is the notice's own reason.
_THEN_RAISED = when_used(
    r"(?:\bnot (?:been )?(?:installed|available|found|compiled)|[Pp]roceeding without|[Ff]all(?:s|ing)? ?back)\b"
    r"[^\n]{0,160}?(?:\b(?:[Tt]hen|later|finally|(?:end|die|fail|crashe|stop)s with|(?:end|fail|crash)ed with"
    r"|(?:I|we) (?:then )?get|raises|gives|throws)\b:? |without it\. )[`'\"]?"
    r"(?=(?:[a-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception): \S)"
)
_RAISES = ("Error: ", "Exception: ")
#: Characters of a text in which somebody may tell it.
_TOLD = 8_000


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole lines."""

    numbers: Sequence[int]
    lines: list[str]


def blocks(chunks: Iterable[str]) -> Iterator[Block]:
    """Yields the log in blocks of a few megabytes at most, in order. `chunks` may end anywhere."""
    number, carry = 1, ""
    for chunk in _sized(chunks):
        text = carry + chunk
        end = _end(text)
        if end < 0 and len(text) < _CHUNK:
            carry = text
            continue
        if end < 0:
            # A line without end: the part read is examined now; its rest gets the same number.
            yield _block(text, number)
            carry = text[-PIECE:]
            continue
        carry = text[end + 1 :]
        block = _block(text[:end], number)
        yield block
        number = block.numbers[-1] + 1
    if carry:
        yield _block(carry.removesuffix("\n"), number)  # the end of the last line starts no other


def _end(text: str) -> int:
    """End of the complete lines, minus a few: a message that was broken at a width must stay in one block."""
    end = text.rfind("\n")
    for _ in range(_KEPT):
        before = text.rfind("\n", 0, max(end, 0))
        if before < 0:
            return end if len(text) >= _CHUNK else -1
        end = before
    return end


def _block(text: str, first: int) -> Block:
    lines = _without_comment_marks(text.split("\n"))
    lengths = list(map(len, lines))
    told = _is_told(text)
    if max(lengths) <= PIECE and not told and not any(mark in text for mark in ("\x1b", "\r", "\\n", _FLAT)):
        width = broken_at(lines, lengths)
        if not width:
            return Block(range(first, first + len(lines)), lines)
    numbers, texts = [], []
    for number, text in _mended(lines, first, told=told):
        numbers.append(number)
        texts.append(text)
    return Block(numbers, texts)


def _without_comment_marks(lines: list[str]) -> list[str]:
    """The lines, without the mark where each is a comment: a log that somebody kept in a script, in which a frame's
    line of code would else be taken for a comment of its own.
    """
    if not lines[0].startswith("#") or len(lines) < _FEWEST_COMMENTED:
        return lines
    if not all(line.startswith("#") or not line.strip() for line in lines):
        return lines
    return [line[1:].removeprefix(" ") for line in lines]


def _sized(chunks: Iterable[str]) -> Iterator[str]:
    for chunk in chunks:
        for at in range(0, len(chunk), _CHUNK):
            yield chunk[at : at + _CHUNK]


def _mended(lines: list[str], first: int, *, told: bool) -> Iterator[Raw]:
    lines = [ANSI.sub("", line) if "\x1b" in line else line for line in lines]
    width = broken_at(lines, [len(line) - line.endswith("\r") for line in lines])
    held: Raw | None = None
    for number, line in enumerate(lines, start=first):
        line = line.removesuffix("\r")
        if flat := _FLAT in line:
            line = _FLAT_END.sub("\r", line)
        if len(line) > PIECE or "\r" in line or "\\n" in line:
            if held:
                yield held
                held = None
            yield from ((number, piece) for piece in _pieces(line, flat=flat))
            continue
        if width:
            if held and not _NEW_RECORD.match(line):
                joined = (held[0], held[1] + line)
                if len(line) == width and len(joined[1]) < PIECE:
                    held = joined
                else:
                    yield joined
                    held = None
                continue
            if held:
                yield held
                held = None
            if len(line) == width:
                held = (number, line)
                continue
        yield from ((number, part) for part in (_in_turn(line) if told else (line,)))
    if held:
        yield held


def _is_told(text: str) -> bool:
    """Whether a short text has a notice and an exception in one sentence. Nobody tells anything in a long one."""
    return len(text) <= _TOLD and any(sign in text for sign in _RAISES) and _THEN_RAISED.search(text) is not None


def _in_turn(line: str) -> Iterator[str]:
    """A notice, and the exception that a person says came after it; the line itself where it is no such sentence."""
    found = _THEN_RAISED.search(line)
    if found is None or any(sign in line[: found.end()] for sign in _RAISES):
        yield line
    else:
        yield line[: found.end()]
        yield line[found.end() :]


def _head(line: str) -> str:
    return _DIGITS.sub("0", line[:40])[:_HEAD]


def _heads_around(lines: list[str], lengths: list[int], width: int) -> Counter[str]:
    """How often lines begin alike around the few of that width; not of these, nor of what follows them."""
    near = set[int]()
    at = -1
    while width in lengths[at + 1 :]:
        at = lengths.index(width, at + 1)
        near.update(range(max(at - _AROUND, 1), min(at + _AROUND, len(lines))))
    return Counter(_head(lines[one]) for one in near if width not in (lengths[one - 1], lengths[one]))


def _is_written_below(line: str, after: str) -> bool:
    """Whether the line has ended, and what follows is a new one of whoever pasted it."""
    return (line.endswith(_CLOSED) and after[:1].isalnum()) or _WRITTEN_BELOW.match(after) is not None


def broken_at(lines: list[str], lengths: list[int]) -> int:
    """The width at which a terminal or a scheduler broke lines; 0 when none is recognizable.

    It is the length of the longest lines, if several have it, or if it is a usual width.
    """
    longest = max(lengths, default=0)
    if longest not in _WIDTHS:
        return 0
    counts = Counter(lengths)
    # Natural lines become rarer towards the longest; broken ones accumulate at it.
    if counts[longest] <= 2 * max(counts[longest - less] for less in range(1, 9)):
        return 0
    # A line that is repeated says nothing more about the width than it does once, and never goes on with itself.
    few = counts[longest] <= _FEW
    heads = _heads_around(lines, lengths, longest) if few else Counter[str]()
    at = [row for row, length in enumerate(lengths) if length == longest]
    full = {lines[row] for row in at}
    followed = len(
        {
            lines[row]
            for row in at
            if row + 1 < len(lines)
            and (after := lines[row + 1]) != lines[row]
            and not _NEW_RECORD.match(after)
            and (not few or heads[_head(after)] < _FEW)  # else a record like many others
            and not (few and _is_written_below(lines[row], after))
        }
    )
    if 2 * followed < len(full):
        return 0
    usual = longest % 10 == 0 or longest in (72, 79, 119, 132)
    return longest if followed >= (1 if usual else 3) else 0


def _pieces(line: str, *, flat: bool) -> Iterator[str]:
    # A traceback inside a string (JSON error files, repr of an exception) has its line ends escaped.
    told = "Traceback (most" in line or ("Error" in line and not _FOLDER_ON_A_DRIVE.search(line))
    if "\\n" in line and told and not flat and not _ONE_LINE_OF_JSON.match(line):
        line = line.replace("\\n", "\r").replace('\\"', '"')
    for part in _unglued(line.split("\r")):
        if part or not line:
            for at in range(0, max(len(part), 1), STEP):
                yield part[at : at + PIECE]
                if at + PIECE >= len(part):
                    break


def _unglued(parts: Iterable[str]) -> Iterator[str]:
    """A message at the end of an endless line gets a line of its own; in a line of usual length it may be a
    quotation.
    """
    for part in parts:
        found, tail = None, len(part) - PIECE
        if (
            tail > 0
            and any(part.find(sign, tail) >= 0 for sign in _SIGNS)
            and not _JSON_END.search(part, len(part) - 20)
        ):
            *_, found = (None, *_GLUED.finditer(part, tail))
        if found is None:
            yield part
        else:
            yield part[: found.start()]
            yield part[found.start() :]
