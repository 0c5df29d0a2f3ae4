"""What a trace is asked to run: the request, and the part of it that names a program, a factory or a config."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.model.findings import Severity
from attn_doctor.quick_dataclasses import dataclass

_HINT = (
    "Name `pkg.module:factory` or `file.py:factory`, a model's config with --hf, or a program after `--`: "
    "attn-doctor trace -- train.py --steps 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """The program to trace, the target, and the recipes."""

    what: tuple[str, ...] = ()
    """`pkg.module:factory`, `file.py:factory`, or a program and its arguments."""
    hf: Path | None = None
    """A Hugging Face model's config, instead of `what`."""
    arguments: tuple[str, ...] = ()
    """Arguments for the factory: each VALUE or NAME=VALUE."""
    python: str | None = None
    as_module: bool = False
    """Without `python`: the interpreter that this code runs in."""
    dtype: str | None = None
    """Cast the model to it."""
    autocast: str | None = None
    """Run inside torch.autocast of this dtype."""
    attn: str | None = None
    """attn_implementation, with `hf`."""
    backward: bool = False
    record: Path | None = None
    """A file that keeps the form of each attention call, for `check --replay`."""
    calls: int | None = None
    """Stop after this many attention calls."""
    gpu: str | None = None
    rules: str = "auto"
    kernels: bool = False
    """Compile the Triton kernels that it launches."""
    trust_remote_code: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    fail_on: Severity = Severity.ERROR
    timeout: float = 300.0
    """Seconds for the whole traced run."""
    compile: bool = False
    """Instead of a trace: attention regions of a small copy, eager against torch.compile."""
    semantics: bool = False
    """Instead of a trace: which token reaches which in a small copy of the model."""


#: Programs that start the intended one as another process, which a trace does not see.
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec", "uv", "poetry", "conda"})


def program(what: list[str], python: str | None) -> tuple[list[str], str | None]:
    """Splits a typed command, `python -u train.py ARGS`, into the program with its arguments, and the interpreter."""
    started_by = Path(what[0]).name if len(what) > 1 else ""
    if started_by in _LAUNCHERS:
        raise BadInput(
            "a launcher starts processes of its own, which a trace does not follow",
            about=f"trace -- {' '.join(what)}",
            hint="Name the program itself, without its launcher: attn-doctor trace -- train.py --steps 1",
        )
    if not re.fullmatch(r"python[\d.]*", started_by):
        return what, python
    rest = what[1:]
    while rest and re.fullmatch(r"-[uBOsEIP]+", rest[0]):
        rest = rest[1:]
    if not rest or rest[0].startswith("-"):
        raise BadInput("a trace runs the file of a program", about=f"trace -- {' '.join(what)}", hint=_HINT)
    # A bare `python` is that of the active environment, which is examined by default.
    return rest, python or (what[0] if "/" in what[0] else None)


def entry_request(what: list[str], hf: Path | None, arguments: tuple[str, ...]) -> dict[str, Any]:
    """The part of a request that names what is run. Raises BadInput."""
    if hf is not None:
        if what:
            raise BadInput("a config and something else to run", about=f"--hf {hf} {' '.join(what)}", hint=_HINT)
        if not hf.exists():
            raise BadInput("there is no such config", about=f"--hf {hf}", hint=_HINT)
        return {"kind": "hf", "target": str(hf.resolve()), "args": [], "kwargs": {}}
    if not what:
        raise BadInput("nothing to trace was named", about="attn-doctor trace", hint=_HINT)
    if ":" in what[0]:
        if len(what) > 1:
            raise BadInput("more than one thing to trace", about=" ".join(what), hint="Hand it values with --arg.")
        named = [one.partition("=") for one in arguments if one.partition("=")[0].isidentifier() and "=" in one]
        return {
            "kind": "factory",
            "target": what[0],
            "args": [one for one in arguments if not ("=" in one and one.partition("=")[0].isidentifier())],
            "kwargs": {name: value for name, _, value in named},
        }
    if not Path(what[0]).is_file():
        raise BadInput("there is no such program, and it is no factory", about=f"trace {what[0]}", hint=_HINT)
    return {"kind": "script", "target": str(Path(what[0]).resolve()), "args": what[1:], "kwargs": {}}
