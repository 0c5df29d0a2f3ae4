"""Reports as nodes write them, for tests and for bench/fleet_merge.py: all alike but for what is planted."""

from __future__ import annotations

import copy
import json
from typing import Any

from attn_doctor.model.fingerprint import hash_of

FACTS: dict[str, Any] = {
    "python": "3.12",
    "python_release": "3.12.11",
    "packages.torch": "2.13.0+cu130",
    "packages.triton": "3.6.0",
    "packages.flash-attn": None,
    "packages.transformers": "5.23.0",
    "packages.torchvision": "0.28.0",
    "libraries.libnccl.so.2": "build-id 5f1f6d0c 400796408 bytes",
    "libraries.libtorch_cuda.so": "build-id 77aa11bc 918273645 bytes",
    "compute_capability": "9.0",
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_count": 8,
    "driver": "580.95.05",
    "kernel": "6.8.0-1031",
    "env.NCCL_NVLS_ENABLE": "0",
    "env.TRITON_F32_DEFAULT": None,
}
#: As many packages as a large environment has.
MANY: dict[str, Any] = {f"packages.some-package-{number}": f"1.{number}.0" for number in range(240)}


def report(node: str, *, created: str = "2026-11-21T05:00:00+00:00", **facts: Any) -> dict[str, Any]:
    """A fit node's."""
    return {
        "schema": "attn-doctor/report/v1",
        "doctor_version": "0.1.0",
        "command": "check",
        "created": created,
        "target": {
            "python": "/opt/train/bin/python", "version": "3.12.11", "environment": "venv", "because": "--python",
            "others": [],
        },
        "quick": False,
        "assumed": [],
        "summary": {
            "errors": 0, "warnings": 0, "infos": 0, "accepted": 0, "open_questions": 0, "exit_status": 0,
        },
        "findings": [],
        "open_questions": [],
        "cleared": [f"some-recipe-{number}" for number in range(60)],
        "not_asked": [],
        "facts": {},
        "node": {"name": node, "hostname": node, "named_by": "SLURMD_NODENAME"},
        "environment": {"id": "9f2c4411aa", "prefix": "/opt/train", "image": None},
        "cohort": {
            "gpu": ["NVIDIA H100 80GB HBM3"], "compute_capability": ["9.0"], "gpu_count": 8, "partition": "h100",
            "environment": "9f2c4411aa",
        },
        "fingerprint": {"sha256": hash_of({**FACTS, **facts}), "critical": "0" * 64, "facts": {**FACTS, **facts}},
        "volatile": {"gpu_uuids": [f"GPU-{node}-{number}" for number in range(8)], "boot_id": f"boot-{node}"},
    }  # fmt: skip


def hashed(written: dict[str, Any]) -> dict[str, Any]:
    """The report, once its facts were changed, with the hash that its node would have taken of them."""
    written["fingerprint"]["sha256"] = hash_of(written["fingerprint"]["facts"])
    return written


def found(written: dict[str, Any], name: str = "x-transformers-rotary-fp32", severity: str = "error") -> dict[str, Any]:
    """The report with a finding."""
    one = copy.deepcopy(written)
    one["findings"].append(
        {
            "id": name, "aliases": [], "severity": severity, "title": f"{name} in words", "certainty": "seen",
            "library": "x-transformers", "subjects": [], "what": "", "why": "", "known_problems": "", "locations": [],
            "evidence": [], "remedies": [], "symptoms": [], "references": [], "status": "stable", "rank": 50,
            "origin": "", "accepted": None,
        }
    )  # fmt: skip
    one["summary"]["exit_status"] = 1 if severity == "error" else 0
    return one


def line(written: dict[str, Any], size: int = 0) -> bytes:
    """As one line, padded to at least `size` bytes by a key that is no part of the format."""
    text = json.dumps(written)
    if len(text) < size:
        text = json.dumps({**written, "padding": "x" * (size - len(text) - 15)})
    return text.encode() + b"\n"
