"""Recognizes the framework of a configuration file by its keys, and reads its attention and precision settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attn_doctor.probe.configs import llamafactory
from attn_doctor.probe.configs.files import Setting, text, word, yes
from attn_doctor.quick_dataclasses import dataclass

#: Keys typical of a framework; two of them identify a file, and the framework with the most wins.
_TELLING: dict[str, frozenset[str]] = {
    "llamafactory": frozenset(
        {"stage", "finetuning_type", "flash_attn", "template", "dataset", "cutoff_len", "lora_target", "dataset_dir",
         "model_name_or_path", "do_train", "do_predict", "overwrite_cache", "train.stage", "top.finetuning_type",
         "top.booster", "top.model_name", "train.compute_type"}
    ),
    # https://docs.axolotl.ai/docs/config-reference.html
    "axolotl": frozenset(
        {"base_model", "datasets", "adapter", "sequence_len", "micro_batch_size", "sample_packing", "val_set_size",
         "load_in_4bit", "flash_attention", "sdp_attention", "eager_attention", "lora_target_linear",
         "dataset_prepared_path"}
    ),
    # https://huggingface.co/docs/accelerate/usage_guides/explore
    "accelerate": frozenset(
        {"compute_environment", "distributed_type", "mixed_precision", "num_processes", "machine_rank", "num_machines",
         "downcast_bf16", "main_training_function", "deepspeed_config", "fsdp_config"}
    ),
    # https://www.deepspeed.ai/docs/config-json/
    "deepspeed": frozenset(
        {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "bf16.enabled", "fp16.enabled",
         "bfloat16.enabled", "gradient_clipping", "steps_per_print", "wall_clock_breakdown",
         "zero_allow_untested_optimizer"}
    ),
    # https://huggingface.co/docs/transformers/main_classes/configuration
    "transformers": frozenset(
        {"model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "hidden_size", "vocab_size",
         "num_attention_heads", "attn_implementation", "_attn_implementation", "auto_map"}
    ),
}  # fmt: skip
#: Frameworks with the trainer's own arguments in their file.
TRAINERS = ("llamafactory", "axolotl")
WORDS = {
    "llamafactory": "LLaMA-Factory", "axolotl": "axolotl", "accelerate": "accelerate", "deepspeed": "DeepSpeed",
    "transformers": "transformers",
}  # fmt: skip


def kind_of(keys: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    """The framework, and the keys that identify it; None when unknown."""
    known = list(dict.fromkeys(keys))
    found = {kind: tuple(key for key in known if key in telling) for kind, telling in _TELLING.items()}
    best = max(found, key=lambda kind: len(found[kind]))
    return (best, found[best]) if len(found[best]) >= 2 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSettings:
    """A file's settings for attention and precision."""

    attention: str | None = None
    """As written in the file."""
    attention_line: int | None = None
    effective_attention: str | None = None
    half: str | None = None
    """bf16, fp16, pure_bf16, none, auto (trainer or GPU decide), checkpoint (the model's files decide), fp8."""
    precision_line: int | None = None
    trains: bool | None = None


Settings = Mapping[str, Setting]


def attention_settings(kind: str, settings: Settings) -> AttentionSettings:
    """Reads the settings by the rules of the file's framework."""
    return _SAID[kind](settings)


def _llamafactory(settings: Settings) -> AttentionSettings:
    asked = settings.get("flash_attn")
    attention = word(asked.value) if asked else None
    return AttentionSettings(
        attention=attention,
        attention_line=asked.line if asked else None,
        effective_attention=llamafactory.effective(dict(settings), attention or "auto"),
        half=llamafactory.half(dict(settings)),
        precision_line=_line(settings, *llamafactory.HALF),
        trains=yes(dict(settings), "do_train") is not False and not yes(dict(settings), "do_predict"),
    )


#: https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/config.py
_BOOLEANS = {
    "flash_attention": "flash_attention_2", "sdp_attention": "sdpa", "xformers_attention": "xformers",
    "flex_attention": "flex_attention", "sage_attention": "sageattention", "eager_attention": "eager",
}  # fmt: skip


def _axolotl(settings: Settings) -> AttentionSettings:
    plain = dict(settings)
    named = text(plain, "attn_implementation")
    key = "attn_implementation" if named else next((one for one in _BOOLEANS if yes(plain, one)), None)
    half = "auto"
    if yes(plain, "fp16") or yes(plain, "float16"):
        half = "fp16"
    elif "bf16" in plain or "bfloat16" in plain:
        full = word(plain["bf16"].value) == "full" if "bf16" in plain else False
        auto = word(plain["bf16"].value) == "auto" if "bf16" in plain else False
        half = "bf16" if full or yes(plain, "bf16") or yes(plain, "bfloat16") else "auto" if auto else "none"
    return AttentionSettings(
        attention=named or key,
        attention_line=plain[key].line if key else None,
        effective_attention=named or (_BOOLEANS[key] if key else None),
        half=half,
        precision_line=_line(settings, "bf16", "fp16", "bfloat16", "float16"),
        trains=True,
    )


def _accelerate(settings: Settings) -> AttentionSettings:
    # `no` is False in YAML 1.1; accelerate writes it in quotes.
    asked = settings.get("mixed_precision")
    half = "none" if asked is None or asked.value is None else word(asked.value)
    return AttentionSettings(
        half="none" if half in ("no", "off") else half, precision_line=asked.line if asked else None
    )


def _deepspeed(settings: Settings) -> AttentionSettings:
    values = {half: enabled(settings, half) for half in ("bf16", "fp16")}
    half = next((one for one, value in values.items() if _true(value)), None)
    if half is None:
        half = "auto" if "auto" in values.values() else "none"
    return AttentionSettings(
        half=half, precision_line=_line(settings, "bf16.enabled", "bfloat16.enabled", "fp16.enabled")
    )


def enabled(settings: Settings, half: str) -> object:
    """`enabled` in DeepSpeed's section, unchanged; None without one. `bfloat16` is an older name of bf16.

    https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/precision_config.py
    """
    for name in ("bf16", "bfloat16") if half == "bf16" else (half,):
        if f"{name}.enabled" in settings:
            value: object = settings[f"{name}.enabled"].value
            return value
    return None


_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "none", "float": "none"}


def _transformers(settings: Settings) -> AttentionSettings:
    plain = dict(settings)
    key = next((one for one in ("attn_implementation", "_attn_implementation") if text(plain, one)), None)
    # `torch_dtype` was renamed in 4.56 and is still read.
    dtype = next((one for one in ("dtype", "torch_dtype") if text(plain, one)), None)
    written = (text(plain, dtype) or "").removeprefix("torch.") if dtype else "auto"
    return AttentionSettings(
        attention=text(plain, key) if key else None,
        attention_line=plain[key].line if key else None,
        effective_attention=text(plain, key) if key else None,
        half=_DTYPES.get(written, "checkpoint"),
        precision_line=plain[dtype].line if dtype else None,
    )


def _true(value: object) -> bool:
    return value is True or str(value).lower() == "true"


def _line(settings: Settings, *keys: str) -> int | None:
    return next((settings[key].line for key in keys if key in settings), None)


_SAID: dict[str, Callable[[Settings], AttentionSettings]] = {
    "llamafactory": _llamafactory,
    "axolotl": _axolotl,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "transformers": _transformers,
}
