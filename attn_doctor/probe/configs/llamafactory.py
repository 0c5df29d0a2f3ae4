"""LLaMA-Factory's own rules: the attention and precision that result from its settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

from attn_doctor.probe.configs.files import Setting, text, word, yes

HALF = ("bf16", "fp16", "pure_bf16")


def from_web_ui(settings: dict[str, Setting]) -> dict[str, Setting]:
    """Converts the web UI's saved fields (`top.booster`, `train.compute_type`) into arguments as the web UI does.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/webui/runner.py
    """
    if not any(key.startswith("top.") for key in settings):
        return settings
    made = {key.partition(".")[2]: setting for key, setting in settings.items() if key.startswith("train.")}
    booster = settings.get("top.booster")
    if booster is not None:
        value = "fa2" if booster.value == "flashattn2" else "auto"
        made["flash_attn"] = Setting(value=value, line=booster.line)
    compute = made.pop("compute_type", None)
    if compute is not None:
        for name in HALF:
            made[name] = Setting(value=compute.value == name, line=compute.line)
    if "top.model_path" in settings:
        made["model_name_or_path"] = settings["top.model_path"]
    made["do_train"] = Setting(value=True, line=None)
    return made


def effective(settings: dict[str, Setting], attention: str) -> str:
    """The attention that results from `flash_attn`: `auto` leaves it to transformers, but gemma 2 gets fa2.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/model/model_utils/attention.py
    """
    if attention == "auto" and _is_gemma2(text(settings, "model_name_or_path")):
        return "fa2"
    return attention


def _is_gemma2(model: str | None) -> bool:
    if not model:
        return False
    kind = model_type_of(model)
    return kind == "gemma2" if kind else re.search(r"gemma-?2-", model.lower()) is not None


def model_type_of(model: str) -> str | None:
    """The architecture of a model whose files lie in this folder; None for the name of one that has to be fetched."""
    try:
        kind = json.loads((Path(model) / "config.json").read_bytes()).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None
    return kind if isinstance(kind, str) else None


def half(settings: dict[str, Setting]) -> str:
    for name in HALF:
        if yes(settings, name):
            return name
    if yes(settings, "do_predict") or yes(settings, "do_eval") or yes(settings, "do_train") is False:
        # Without autocast the dtype is that of infer_dtype, and `auto` follows the model's own files.
        infer = word(settings["infer_dtype"].value) if "infer_dtype" in settings else "auto"
        return {"auto": "checkpoint", "bfloat16": "bf16", "float16": "fp16", "float32": "none"}.get(infer, "checkpoint")
    return "none"
