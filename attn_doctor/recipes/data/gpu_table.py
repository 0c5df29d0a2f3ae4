"""GPUs that can be named on the command line, `--gpu h100` or `--gpu sm_90`; data in recipes/gpus.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf

TABLE = "gpus.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGpu:
    """A GPU, present or not. None means that no source gives the value."""

    name: str
    compute_capability: str
    shared_memory_bytes: int | None
    memory_mib: int | None = None
    multi_processor_count: int | None = None


def plain_name(text: str) -> str:
    """A name reduced for comparison: lower case, without maker, brand, blanks and dashes."""
    words = re.sub(r"\b(nvidia|geforce|tesla|quadro)\b", " ", text.lower())
    return re.sub(r"[\s_-]+", "", words)


def named_gpu(text: str) -> NamedGpu:
    """The GPU with this name, `sm_XY`, or compute capability.

    Raises BadInput for a name that is unknown or fits several compute capabilities.
    """
    table = shelf.table(TABLE)
    limits = {item["compute_capability"]: item.get("shared_memory_bytes") for item in table["architecture"]}
    hint = "Name one such as h100, a100, l40s, rtx4090, or a compute capability such as sm_90 or 9.0."
    capability = _capability(text)
    if capability is not None:
        if capability not in limits:
            raise BadInput(f"no GPU of compute capability {capability} is known", about=f"--gpu {text}", hint=hint)
        return NamedGpu(name=text, compute_capability=capability, shared_memory_bytes=limits[capability])
    wanted = plain_name(text)
    _not_one(table, text)
    for item in table["gpu"]:
        if _is_called(item, text):
            return NamedGpu(
                name=item["name"],
                compute_capability=item["compute_capability"],
                shared_memory_bytes=item.get("shared_memory_bytes", limits.get(item["compute_capability"])),
                memory_mib=item.get("memory_mib"),
                multi_processor_count=item.get("multi_processor_count"),
            )
    amd = _amd(table, text)
    if amd is not None:
        raise BadInput(
            f"{amd.name} is AMD's ({amd.architecture}) and has no compute capability",
            about=f"--gpu {text}",
            hint="CUDA's dtype rules, GPU code and kernels cannot be judged for it. Without --gpu all else is: "
            "packages and what they ask of each other, imports, configurations, torch's build.",
        )
    names = [plain_name(name) for item in table["gpu"] for name in (item["name"], *item.get("aliases", ()))]
    # Stricter than the default: an MI300X is no B300, and a GTX 1080 no RTX 5080.
    import difflib  # for an unknown name

    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.75)
    if re.match(r"amd|instinct|radeon|rx\d|mi\d|gfx|intel|arc|gaudi|tpu", wanted):
        hint = f"NVIDIA's are known, and no other maker's. {hint}"
    raise BadInput(
        f"no GPU is known by the name {text!r}",
        about=f"--gpu {text}",
        hint=(f"Did you mean {' or '.join(dict.fromkeys(close))}? " if close else "") + hint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """A GPU of AMD's, which has no compute capability."""

    name: str
    architecture: str
    """gfx942"""


def names() -> tuple[str, ...]:
    """The names that `--gpu` takes, without other spellings of them."""
    return tuple(item["name"] for item in shelf.table(TABLE)["gpu"])


def amd_gpu(text: str) -> AmdGpu | None:
    """AMD's GPU with this name or architecture; None for every other name."""
    return _amd(shelf.table(TABLE), text)


def _amd(table: Mapping[str, Any], text: str) -> AmdGpu | None:
    plain = re.sub(r"\b(amd|instinct|radeon)\b", " ", text.lower())
    return next(
        (
            AmdGpu(name=item["name"], architecture=item["architecture"])
            for item in table["amd"]
            if _is_called(item, plain) or text == item["architecture"]
        ),
        None,
    )


def _is_called(item: Mapping[str, Any], text: str) -> bool:
    """True when the text is one of its names; the brand is required when GPUs of two brands share the rest of the
    name.
    """
    names = (item["name"], *item.get("aliases", ()))
    whole = _joined(text)
    return whole in map(_joined, names) or plain_name(text) in map(plain_name, names)


def _joined(text: str) -> str:
    return re.sub(r"[\s_-]+", "", re.sub(r"\b(nvidia|geforce|tesla)\b", " ", text.lower()))


def _not_one(table: Mapping[str, Any], text: str) -> None:
    """Raises BadInput for a name shared by several generations."""
    capabilities = {item["name"]: item["compute_capability"] for item in table["gpu"]}
    for item in table["several"]:
        if _joined(text) in map(_joined, (item["name"], *item["aliases"])):
            each = [f"{name} ({capabilities[name]})" for name in item["names"]]
            raise BadInput(
                f"{text!r} is the name of GPUs of several generations",
                about=f"--gpu {text}",
                hint=f"Name the one that is meant: {', '.join(each[:-1])} or {each[-1]}.",
            )


class GpuNames:
    """Recognizes GPU names in any text, and returns their compute capability."""

    def __init__(self) -> None:
        table = shelf.table(TABLE)
        known: list[tuple[str, str | None]] = [
            (item["pattern"], item.get("compute_capability")) for item in table.get("family", ())
        ]
        names = {
            _spelled(name): item["compute_capability"]
            for item in table["gpu"]
            for name in (item["name"], *item.get("aliases", ()))
            if not name.isdigit()  # "5090" alone is a GPU for --gpu, but a port or a step in a log
        }
        known += [(name, names[name]) for name in sorted(names, key=len, reverse=True)]
        self._known = known
        # Longest first; a letter or a digit on either side makes it another word, except a count as in "2xH100".
        names_ = "|".join(f"({pattern})" for pattern, _ in known)
        self._pattern = re.compile(rf"(?<![a-z0-9.])(?:\d{{1,4}} ?x ?)?(?:{names_})(?: ?(?:ti|super|s|d))?(?![a-z0-9])")
        # Shared memory per block -> compute capability, for sizes that only one capability has.
        self._limits: dict[int, set[str]] = {}
        for item in table["architecture"]:
            self._limits.setdefault(item["shared_memory_bytes"], set()).add(item["compute_capability"])

    def capability(self, text: str) -> str | None:
        """`12.0` for "2x RTX 5090" or "sm_120"; None when the text names no GPU, several, or an ambiguous one.

        One name counts before a number such as sm_90, which may be what a build is for.
        """
        plain = " ".join(text.lower().replace("_", " ").replace("nvidia", " ").replace("geforce", " ").split())
        named: set[str | None] = {self._known[(match.lastindex or 1) - 1][1] for match in self._pattern.finditer(plain)}
        # sm_120, and SM 12.0 as people write it
        numbered = {
            f"{match[1]}.{match[2]}"
            for match in re.finditer(r"\b(?:sm|compute) ?(\d{1,2})(?:(?=\d)|\.)(\d)[af]?\b(?!\.\d)", plain)
        }
        if len(named) == 1 and None not in named:
            return named.pop()
        return numbered.pop() if len(numbered) == 1 else None

    def of_limit(self, shared_memory_bytes: int) -> str | None:
        """The compute capability with this much shared memory per block, when there is exactly one."""
        found = self._limits.get(shared_memory_bytes, set())
        return next(iter(found)) if len(found) == 1 else None


def _spelled(name: str) -> str:
    words = re.sub(r"[\s_-]+", " ", name.lower())
    words = re.sub(r"(?<=\d{4})(?=[a-z]{2})", " ", words)  # 2080ti
    return re.escape(words).replace(r"\ ", "[ -]?")


def _capability(text: str) -> str | None:
    match = re.fullmatch(r"(?:sm|compute)_?(\d+)(\d)[af]?", text.strip().lower())
    if match:
        return f"{match[1]}.{match[2]}"
    return text if re.fullmatch(r"\d+\.\d", text) else None


def runs(gpu: str, code: list[str]) -> bool:
    """True when machine code runs on a GPU, both by compute capability: on its own major, same or later minor.
    PTX is not looked at: published wheels hold none for newer GPUs.
    """
    major, _, minor = gpu.partition(".")
    return any(one.split(".")[0] == major and int(one.split(".")[1]) <= int(minor) for one in code)
