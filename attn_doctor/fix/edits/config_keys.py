"""The name of a setting in each framework's configuration, and the defaults under which a missing key needs no
change.
"""

from __future__ import annotations

from collections.abc import Sequence

from attn_doctor.fix.refusal import Refused
from attn_doctor.probe.configs.frameworks import kind_of

_HALF = ("bf16", "fp16", "pure_bf16")
#: Meaning of a missing key: setting it to that value would change nothing.
_DEFAULTS: dict[str, dict[str, tuple[str, ...]]] = {
    # https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/model_args.py
    "llamafactory": {"flash_attn": ("auto",), "bf16": ("false",), "fp16": ("false",), "pure_bf16": ("false",)},
    # https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py
    "axolotl": {"fp16": ("false",), "bf16": ("auto",), "flash_attention": ("false",)},
    # A missing section is off, and the trainer's own settings are not compared with it.
    "deepspeed": {"bf16.enabled": ("false", "auto"), "fp16.enabled": ("false", "auto")},
    "accelerate": {"mixed_precision": ("no",)},
    "transformers": {},
}


def own_keys(keys: Sequence[str], settings: dict[str, str]) -> dict[str, str]:
    """The framework's own names for the settings, without missing keys whose default is right.

    Raises Refused when the framework has no such setting.
    """
    if any(key.startswith("top.") for key in keys):
        return _web_ui(keys, settings)
    known = kind_of(keys)
    kind = known[0] if known else "llamafactory"
    found: dict[str, str] = {}
    for key, value in settings.items():
        found.update(_own(kind, keys, key, value))
    defaults = _DEFAULTS[kind]
    return {key: value for key, value in found.items() if not keys or key in keys or value not in defaults.get(key, ())}


def _own(kind: str, keys: Sequence[str], key: str, value: str) -> dict[str, str]:
    if kind == "deepspeed" and key in ("bf16", "fp16", "bf16.enabled", "fp16.enabled"):
        half = key.removesuffix(".enabled")
        old = "bfloat16" if half == "bf16" and "bfloat16.enabled" in keys and "bf16.enabled" not in keys else half
        return {f"{old}.enabled": value}
    if key == "attn_implementation":
        return _attention(kind, keys, value)
    if key == "dtype" and kind == "transformers":
        return {"torch_dtype" if "torch_dtype" in keys and "dtype" not in keys else "dtype": value}
    return {key: value}


def _attention(kind: str, keys: Sequence[str], value: str) -> dict[str, str]:
    if kind == "transformers":
        private = "_attn_implementation" in keys and "attn_implementation" not in keys
        return {"_attn_implementation" if private else "attn_implementation": value}
    if kind == "axolotl" and "attn_implementation" not in keys:
        # Before 0.17 each attention implementation had a switch of its own.
        if value != "sdpa":
            raise Refused(f"this axolotl configuration has no place for {value}")
        return {"flash_attention": "false", "sdp_attention": "true"}
    return {"attn_implementation": value}


def _web_ui(keys: Sequence[str], settings: dict[str, str]) -> dict[str, str]:
    """The web UI's own names for the same settings.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/webui/runner.py
    """
    found = {}
    for key, value in settings.items():
        if key == "flash_attn" and value == "auto" and "top.booster" in keys:
            found["top.booster"] = "auto"
        elif key in _HALF and value == "true" and "train.compute_type" in keys:
            found["train.compute_type"] = key
        else:
            raise Refused(f"the web UI's saved arguments have no place for {key}: {value}")
    return found
