"""What `attn-doctor explain` costs: seconds and memory against the size of the log.

    python bench/explain_cost.py [MEGABYTES ...]        (default: 50; 1000 takes half a minute)

Logs are made, not recorded: training lines of several ranks, warnings that come again and again, and one traceback a
rank near the end. Then ugly ones: tracebacks only, a known warning every 200 lines, no two lines alike, lines that
nearly match over and over, one line, random bytes, and a packed one. Each is explained by a process of its own, of
which the time that passed, the processor's time and the peak of resident memory are told.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TRACEBACK = """\
Traceback (most recent call last):
  File "/job/train.py", line 310, in <module>
    main()
  File "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/env/lib/python3.11/site-packages/flash_attn/flash_attn_interface.py", line 91, in _flash_attn_forward
    out, softmax_lse, S_dmask, rng_state = flash_attn_gpu.fwd(
RuntimeError: FlashAttention only support fp16 and bf16 data type
"""


def training(rng: random.Random) -> Iterator[str]:
    """Lines as trainers print them."""
    step = 0
    while True:
        step += 1
        rank = rng.randrange(8)
        clock = f"10:{step // 60 % 60:02}:{step % 60:02},{rng.randrange(999):03}"
        yield f"[2026-11-21 {clock}] [INFO] [trainer.py:1715:log] step={step} loss={rng.random():.5f} lr=1.0e-05"
        yield f"[rank{rank}]: {{'loss': {rng.random():.4f}, 'grad_norm': {rng.random():.4f}, 'epoch': {step / 1e5}}}"
        yield f" {step % 100}%|{'█' * (step % 10)}{' ' * (10 - step % 10)}| {step}/100000 [{step}:12<99:59, 1.21s/it]"
        if step % 500 == 0:
            yield "/env/site-packages/torch/utils/checkpoint.py:87: UserWarning: None of the inputs have requires_grad"
            yield "  warnings.warn("


def write(file: Path, lines: Iterator[str], size: int) -> None:
    """Fills a file up to the size, then each of eight ranks ends in a traceback, interleaved."""
    with file.open("w") as out:
        written = 0
        while written < size:
            line = next(lines) + "\n"
            out.write(line)
            written += len(line)
        for row in TRACEBACK.splitlines():
            for rank in range(8):
                out.write(f"[rank{rank}]: {row}\n")


def fill(file: Path, piece: bytes | None, size: int) -> None:
    """The piece again and again, or random bytes. A megabyte at a time: what we hold counts as the child's peak."""
    rng = random.Random(1)
    with file.open("wb") as out:
        while out.tell() < size:
            out.write(piece or rng.randbytes(1 << 20))


def tracebacks(rng: random.Random) -> Iterator[str]:
    """Nothing but failures."""
    while True:
        yield from TRACEBACK.replace("310", str(rng.randrange(999))).splitlines()
        yield f"restarting worker {rng.randrange(512)}"


def warnings(rng: random.Random) -> Iterator[str]:
    """A known harmless warning again and again."""
    lines = training(rng)
    while True:
        for _ in range(200):
            yield next(lines)
        yield "You are attempting to use Flash Attention 2 without specifying a torch dtype."


def unlike(rng: random.Random) -> Iterator[str]:
    """Failures, each with words of its own."""
    while True:
        word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12))
        yield f"RuntimeError: {word} failed: expected {word[:6]} to have the same dtype as {word[6:]}"
        yield f'  File "/env/{word}.py", line {rng.randrange(999)}, in {word[::-1]}'


def nearly(rng: random.Random) -> Iterator[str]:
    """Lines that begin like what recipes look for, again and again."""
    beginnings = (
        "FlashAttention only ", "undefined symbol: _ZN", "query.dtype: float key.dtype: ", "out of resource: shared ",
        "No module named 'flash_attn", "[rank1]: [rank2]: ", "Traceback (most recent call last", "version `GLIBC_2.",
        "1%|####| 1/2 [", "(pid=1) ", "C:\\a\\b\\", '  File "',
    )  # fmt: skip
    while True:
        yield rng.choice(beginnings) * rng.randrange(1, 150)


def explain(file: Path) -> tuple[float, float, float, int]:
    """(seconds, processor's seconds, MiB, exit status)"""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "attn_doctor", "explain", "--json", str(file)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    busy = usage.ru_utime + usage.ru_stime
    return time.monotonic() - started, busy, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    """Prints a line for each log."""
    sizes = [int(text) for text in sys.argv[1:]] or [50]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.log"
        for size in sizes:
            write(file, training(random.Random(1)), size << 20)
            report(f"training, {size} MB", file)
        size = sizes[0]
        packed = Path(folder) / "train.log.gz"
        write(file, training(random.Random(1)), size << 20)
        with file.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as out:
            shutil.copyfileobj(plain, out)
        report(f"training, {size} MB, gz", packed)
        write(file, tracebacks(random.Random(1)), size << 20)
        report(f"tracebacks only, {size} MB", file)
        write(file, warnings(random.Random(1)), size << 20)
        report(f"a known warning every 200 lines, {size} MB", file)
        write(file, unlike(random.Random(1)), size << 20)
        report(f"no two lines alike, {size} MB", file)
        write(file, nearly(random.Random(1)), size << 20)
        report(f"lines that nearly match, {size} MB", file)
        for much in (size, 2 * size):
            fill(file, b"loss 0.1 " * (1 << 16), much << 20)
            report(f"one line, {much} MB", file)
            fill(file, None, much << 20)
            report(f"random bytes, {much} MB", file)


def report(name: str, file: Path) -> None:
    """One line."""
    seconds, busy, memory, status = explain(file)
    print(f"{name:45} {seconds:6.2f} s  {busy:6.2f} s busy  {memory:6.0f} MiB  exit {status}", flush=True)


if __name__ == "__main__":
    main()
