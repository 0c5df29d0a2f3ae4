"""Facts about the interpreter itself, from its own description (patient/interpreter.py)."""

from __future__ import annotations

import os

from attn_doctor.machine.target import Target
from attn_doctor.machine.which import which
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes


def probe(target: Target) -> tuple[Fact, ...]:
    """Facts about version, folder, environment, pip and libc."""
    told = target.told
    notes = FactNotes()
    how = f"asked {target.python}"
    notes.known("python.version", target.version, how)
    notes.known("python.executable", str(target.python), how)
    notes.known("python.prefix", str(target.prefix), how)
    notes.known("python.environment", target.environment_kind, how)
    notes.known("python.has_pip", bool(told.get("has_pip")), how)
    beside = target.python.parent / "uv"
    uv = "uv" if which("uv") else str(beside) if beside.is_file() else None
    notes.known_or_absent("python.uv", uv, "uv on PATH, or beside the interpreter", "there is no uv")
    code = tuple(dict.fromkeys(str(file) for file, _ in told.get("startup_code") or ()))
    notes.known_or_absent("python.startup_code", code, ".pth files, sitecustomize and usercustomize, read as data")
    try:
        notes.known("python.owner", target.prefix.stat().st_uid, f"stat({target.prefix})")
    except OSError as error:
        notes.unknown("python.owner", f"stat({target.prefix})", error.strerror or str(error))
    notes.known("python.examined_as", os.geteuid(), "geteuid()")
    platlib = str(told.get("platlib") or "")
    notes.known("python.writable", os.access(platlib, os.W_OK), f"access({platlib}, W_OK)")
    libc = str(told.get("libc") or "")
    if libc.startswith("glibc "):
        notes.known("libc.version", libc.removeprefix("glibc "), "confstr(CS_GNU_LIBC_VERSION) in the interpreter")
    else:
        reason = str(told.get("libc_reason") or f"the C library is {libc or 'not glibc'}")
        notes.absent("libc.version", "confstr(CS_GNU_LIBC_VERSION) in the interpreter", reason)
    return notes.facts()
