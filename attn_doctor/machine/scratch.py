"""The temporary folder of one examination, readable by this user alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine import leftovers, temporary


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that is removed afterwards.

    Raises AttnDoctorError when none can be made.
    """
    try:
        folder = temporary.make_folder(leftovers.PREFIX)
    except OSError as error:
        raise AttnDoctorError(
            f"no private temporary folder can be made: {error.strerror}",
            about=f"TMPDIR is {os.environ.get('TMPDIR') or 'not set'}",
            hint="Set TMPDIR to a folder that can be written.",
        ) from None
    with leftovers.held(folder):
        try:
            yield folder
        finally:
            temporary.remove(folder)
            leftovers.sweep(folder.parent)


def check_room(folder: Path) -> None:
    """Raises AttnDoctorError when nothing more can be written to the folder, which explains an earlier failure."""
    file = folder / "room"
    try:
        file.write_bytes(b"\0" * 8192)
        file.unlink()
    except OSError as error:
        raise AttnDoctorError(
            f"nothing more can be written: {error.strerror}",
            about=str(folder),
            hint="Make room there, or set TMPDIR to a folder that has some.",
        ) from None


#: Variables with folders that Python and the dynamic loader search.
_SEARCH_PATHS = ("PYTHONPATH", "LD_LIBRARY_PATH")


def absolute_search_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with relative search paths made absolute, for a process that starts in another folder.

    An empty entry means the current folder (site.py, ld.so(8)).
    """
    these = dict(environment)
    for name in _SEARCH_PATHS:
        entries = these.get(name, "").split(os.pathsep)
        if these.get(name) and not all(entry.startswith("/") for entry in entries):
            with contextlib.suppress(OSError):  # the current folder was deleted: relative paths lead nowhere
                these[name] = os.pathsep.join(str(Path(entry).absolute()) for entry in entries)
    return these


def patient_environment(folder: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables for the patient's code: as given, but it writes only inside `folder` and uses no
    network.

    HOME points into the folder too, since many packages write to it while they are imported; the user's own
    site-packages stay available.
    """
    before = absolute_search_paths(os.environ if base is None else base)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    caches = {
        name: str(folder / "cache" / name.lower())
        for name in (
            "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TRITON_CACHE_DIR", "TRITON_HOME",
            "TRITON_DUMP_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCH_HOME", "CUDA_CACHE_PATH",
            "NUMBA_CACHE_DIR", "MPLCONFIGDIR", "HF_HOME", "TILELANG_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE",
        )
    }  # fmt: skip
    return {
        **before,
        **caches,
        "PYTHONUSERBASE": before.get("PYTHONUSERBASE") or str(Path(before.get("HOME", "/nonexistent")) / ".local"),
        "HOME": str(home),
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "WANDB_MODE": "offline",
        "VLLM_NO_USAGE_STATS": "1",
    }
