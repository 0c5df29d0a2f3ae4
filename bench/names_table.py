"""The rows of recipes/names_by_release.json for one package: names that not every release of their module has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.names_around import Around, is_unbroken, partial, turned_into_names
from bench.released_names import DTYPES, GENERATED_STUBS, ReleasedNames

#: Trees of one module a model: only what tells of attention is listed of them.
_MODELS = re.compile(
    r"^(?:transformers|diffusers|timm|fla|optimum|unsloth|deepspeed|peft|liger_kernel|torchao|xfuser|kernels)\.(?:\w+\.)*?(?:models?|model_implementations"
    r"|pipelines|tuners)\.|^vllm\.(?:model_executor\.models|transformers_utils)\.|^sglang\.srt\.(?:models|configs)\."
    r"|^diffusers\.modular_pipelines\."
)
_ATTENTION = re.compile(r"attention|attn|rotary|rope|sdpa|flash|repeat_kv|cache|mask(?!2?former|ed)", re.IGNORECASE)
_OF_CONFIG = re.compile(r"attn|attention|rope|head|rotary|window|cache", re.IGNORECASE)
#: Of the architectures that others patch, methods and parameters as well.
_PATCHED = re.compile(
    r"\.models\.(?:llama|mistral|mixtral|qwen2|qwen2_vl|qwen2_5_vl|qwen3|gemma|gemma2|gemma3|phi3|gpt_neox|falcon|clip"
    r"|whisper|attention\w*)\."
)
#: Internals: their modules, and what tells of attention in them; names only of the packages right below the root.
_INTERNAL = re.compile(
    r"^torch\._(?!C$|dynamo\.config$|inductor\.config$|dynamo$|inductor$|library$|utils$|compile$|ops$|tensor$)\w+"
    r"|^torch\.(?:ao|testing|onnx|package|jit|quantization|masked|sparse|utils\.(?:hipify|tensorboard|bottleneck|data)"
    r"|fx\.(?:experimental|passes)|export\.\w+)\b"
    r"|^torch\.distributed\.(?!fsdp\b|tensor$|tensor\.(?:parallel|experimental)$|device_mesh$|distributed_c10d$)\w+\."
    r"|^(?:vllm|sglang)\.(?!config|utils|platforms|envs|attention\.\w+$|sampling_params|srt\.(?:utils|server_args)$)\w+\.\w+"
    r"|^flashinfer\.\w+\.\w+|^(?:trl\.experimental|torchao\.(?!quantization$|float8$|dtypes$|utils$))\w*|^fla\.ops\.\w+\."
    r"|^(?:transformers|diffusers)\.quantizers|^torchao\.\w+\.\w+\.|^triton\.(?:_C|tools|experimental|backends)"
)
#: Others import from them, so they are read; nothing of their own is listed.
_NOT_LISTED = re.compile(
    r"\.(?:testing_utils|sagemaker|deprecated|jax|paddle|onnx\w*|mlx|\w+_(?:tf|flax|mlx)|(?:\w+_)?(?:tf|flax|mlx)_\w+"
    r"|cli|commands|_meta_registrations|_refs|_prims|_decomp|flash_attn_triton_\w+|agents|triton_kernels)(?:\.|$)"
    r"|^torch\.distributed\.tensor\.(?:_ops|experimental\._)|^torch\._(?:prims_common|utils_internal)|^huggingface_hub\._"
    r"|^transformers\.utils\.doc$|^diffusers\.loaders\.|^(?:unsloth|unsloth_zoo)\.(?!models\b|kernels$|trainer$)\w"
    r"|^timm\.(?:data|optim|utils|loss|scheduler|task)|^torchao\.(?:quantization|dtypes|sparsity|experimental|testing|ops)\.\w"
    r"|^deepspeed\.(?!ops\b|utils$|accelerator$|runtime$|comm$)\w|^deepspeed\.ops\.\w+\."
    r"|^vllm\.(?:entrypoints|reasoning|inputs|compilation|lora|multimodal|transformers_utils|tool_parsers)|^torch\._numpy"
    r"|^transformer_engine\.pytorch\.attention\.(?:\w+\.){2}"
    r"|^xformers\._flash_attn\.|\.(?:__main__|_internal_testing)$|^huggingface_hub\.inference\b|^trl\.(?:scripts|chat_template)"
    r"|^(?:vllm|sglang)\.(?!attention\.|v1\.attention\.|srt\.layers\.attention\.|model_executor\.layers\.rotary)(?:\w+\.){2,}\w"
    r"|^sglang\.(?:multimodal_gen|jit_kernel|bench_|check_|compile_|lang|launch_|global_config)|^vllm\.(?:_custom_ops|third_party)"
    r"|^flashinfer\.(?!attention|prefill|decode|mla|cascade|sparse|rope|page|norm|sampling|utils|xqa|pod|cudnn\b)\w"
    r"|^transformers\.generation\.(?:logits_process|stopping|candidate|beam|streamers|watermark|continuous_batching)"
    r"|^torchao\.prototype\.|^transformer_engine\.(?!pytorch\.(?:attention|module)\b|pytorch$|common$|common\.recipe)\w"
    r"|^transformer_engine\.pytorch\.module\._"
    r"|^torch\.distributed\.(?:_shard|_tools|_spmd|_composable|algorithms|elastic|rpc|launcher|benchmarks|_pipeline|pipelining|pipeline)"
    r"|^torch\._(?:inductor|dynamo|functorch|export)\.(?!config$|kernel\b|runtime$|codegen$|_internal$)"
    r"|^torch\.(?:onnx|ao|package|jit|testing|utils\.(?:data|tensorboard|benchmark|_sympy|viz|model_dump))\b"
    r"|^sglang\.(?:\w+\.){2}(?!attention|rotary|radix)\w"
    r"|^pytorch_lightning\.(?!(?:callbacks|loggers|metrics|overrides|plugins|profilers?|strategies|trainer|utilities|core)\b)\w"
    r"|^pytorch_lightning\.trainer\.(?!trainer$|states$|supporters$)|^pytorch_lightning\.(?:\w+\.){3}"
    r"|^pytorch_lightning\.(?:plugins|strategies|metrics|loggers|profilers?|overrides)\.\w"
)
#: Classes by the thousand that all left at once.
_NOBODYS = re.compile(
    r"^(?:TF|Flax)[A-Z](?!uto|reTrained)|_kernel(?:_|$)|Kernel$|Deprecated|_inner$|^FORWARD_|_PRETRAINED_|_DOCSTRING$|^T_"
    r"|_ARCHIVE_|^(?!PreTr)\w+PreTrainedModel$|For(?:TokenClassification|QuestionAnswering|MultipleChoice|NextSentencePrediction)$"
    r"|\w(?:Text|Vision|Audio|Encoder|Decoder|Video|QFormer|Thinker|Talker|Tokenizer\w+)(?:Config|Model)$|ImageProcessorPil$|^dummy_|^scalartype|_ATTENTION_CLASSES$|segmentation_map|pixel_mask|_handle_"
)
_PRIVATE = re.compile(r"attn|attention|mask|cache|flash|import|sdpa|rope", re.IGNORECASE)
#: What a serving engine is started with; and the trainers that most people use.
_ENGINE = re.compile(r"^(?:LLM|EngineArgs|Engine|SamplingParams|GuidedDecodingParams|ModelConfig)\.__init__$")
_TRAINER = re.compile(r"^(?:SFT|DPO|GRPO|PPO|KTO|ORPO|Reward|RLOO)(?:Trainer|Config)\.__init__$")
_OF_INTERNALS = re.compile(r"attention|attn|sdpa|FakeTensor$", re.IGNORECASE)
#: Classes whose instances are asked for attributes that their methods set.
_HOLDERS = re.compile(r"attention|attn|cache|mask|rotary|rope|config|processor|args|arguments|flash", re.IGNORECASE)
#: Further classes whose attributes messages miss.
_ASKED = re.compile(
    r"PreTrained|Mixin$|Tensor|Generation|LLM|Engine|Pipeline$|Accelerator|Peft|Lora|Scheduler$|HfApi|Model$|Module$|Linear|Kernel"
    r"|Tokenizer|Plugin|State$|Mesh|Stream|Library|Wrapper$|Backend|Metadata|Quantizer$"
)
_SUBJECT = re.compile(
    r"attention|attn|mask(?!2?former|ed)|cache|rope|rotary|sdpa|flash|kernel|generate$|from_pretrained|from_config"
    r"|Trainer\.__init__|Accelerator\.(?:__init__|unwrap_model)|Plugin\.__init__|Config\.__init__|Arguments\.__init__|LLM\.__init__|Args\.__init__|Engine\.__init__"
    r"|load_model|get_model|get_peft|quantize",
    re.IGNORECASE,
)
#: Functions that hand on what they do not know: a parameter that came is worth telling.
_HANDS_ON = re.compile(r"(?:from_pretrained|from_config|generate)$")
#: Special methods that a message tells of: 'DynamicCache' object is not subscriptable, has no len(), is not iterable.
_SPECIAL = {"__getitem__", "__len__", "__iter__", "__contains__"}

Spans = dict[tuple[int, int], dict[str, set[str]]]


def rows_of(
    looked_at: list[ReleasedNames],
    spelled: list[str],
    ever: Mapping[tuple[str, str], set[str]],
    around: Around | None = None,
    brought: list[str] | None = None,
) -> list[dict[str, Any]]:
    """The rows, oldest first.

    Args:
        looked_at: the releases, oldest first.
        spelled: the same ones as `since` and `until` call them.
        ever: what classes of other packages have had in any release, by package and name.
        around: what counts of a package around attention; None for those of attention, whose choice is below.
        brought: how `since` calls them, where it does otherwise.
    """
    spans: Spans = {}
    last = len(looked_at) - 1
    for key, name, at in (
        *_of_modules(looked_at, around),
        *_of_classes(looked_at, ever, around),
        *_of_functions(looked_at, ever, around),
    ):
        spans.setdefault((at[0], at[-1]), {}).setdefault(key, set()).add(name)
    return [
        {
            "since": (brought or spelled)[first] if first else None,
            "until": spelled[end + 1] if end < last else None,
            "in": {key: " ".join(sorted(names)) for key, names in sorted(found.items())},
        }
        for (first, end), found in sorted(spans.items())
    ]


def _is_wanted(name: str) -> bool:
    if _NOBODYS.search(name):
        return False
    return not name.startswith("_") or (bool(_PRIVATE.search(name)) and not name.startswith("__"))


def _is_listed(module: str, around: Around | None) -> bool:
    return around.has_module(module) if around else not _NOT_LISTED.search(module)


def _of_modules(looked_at: list[ReleasedNames], around: Around | None) -> Iterator[tuple[str, str, list[int]]]:
    for module in sorted({one for each in looked_at for one in (*each.modules, *each.packages)}):
        present = [index for index, one in enumerate(looked_at) if one.has_module(module)]
        if (
            _is_vague(looked_at, module)
            or not _is_listed(module, around)
            or not is_unbroken(present)
            or any("unreadable" in looked_at[at].modules.get(module, {}) for at in present)
        ):
            continue
        of: dict[str, list[int]] = {}
        made: set[str] = set()
        for index in present:
            one = looked_at[index]
            for name in one.bound(module):
                of.setdefault(name, []).append(index)
            made |= _made_or_shown(one, module)
        for name in {name for index in present for name in looked_at[index].gone(module)} - set(of):
            first = next(index for index in present if name in looked_at[index].gone(module))
            of[name] = [index for index in present if index < first]  # made in a way that no file tells
            made.add(name)
        if around:
            yield from turned_into_names(looked_at, module, {name for name, at in of.items() if at == present})
        below_models = bool(_MODELS.match(f"{module}."))
        for name, at in partial(present, of):
            if below_models and name == "eager_attention_forward":
                continue
            if any(looked_at[index].may_answer(module, name) for index in set(present) - set(at)):
                continue
            if around:
                if name in made and not name.startswith("_"):
                    yield module, name, at
            elif name in made and _is_wanted(name) and not any(one.is_vague(module, name) for one in looked_at):
                is_module = any(name in looked_at[index].packages.get(module, ()) for index in at)
                if below_models:
                    is_listed = is_module and module.count(".") < 2
                else:
                    is_listed = is_module or module.count(".") < 2 or not _INTERNAL.match(module)
                telling = _OF_INTERNALS if _INTERNAL.match(module) else _ATTENTION
                if is_listed or telling.search(name):
                    yield module, name, at


def _is_vague(looked_at: list[ReleasedNames], module: str) -> bool:
    """Whether a module is compiled and known from a stub."""
    return module == DTYPES or any(one.modules.get(module, {}).get("stub") for one in looked_at)


def _made_or_shown(one: ReleasedNames, module: str) -> set[str]:
    """Names that callers look for in a module: not what it imports for its own use."""
    names = one.modules.get(module, {})
    found = {*names.get("defs", ()), *names.get("lazy", ()), *names.get("all", ()), *one.packages.get(module, ())}
    if names.get("package") or (module.count(".") < 2 and one.root in {"torch", "transformers"}):
        own = {
            name
            for name, (level, target, _) in names.get("imports", {}).items()
            if level or target.partition(".")[0] == one.root
        }
        found |= own
        brought = one.bound(module) - found - set(names.get("imports", ()))
        found |= {name for name in brought if one.origin(module, name)[0].partition(".")[0] == one.root}
    return found


def _chains(
    looked_at: list[ReleasedNames], kind: str, around: Around | None
) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    """Module that it is listed under, name, and where it lies in which release: one chain for what moved."""
    places: dict[str, dict[str, list[int]]] = {}
    for index, one in enumerate(looked_at):
        for module, names in one.modules.items():
            is_listed = (bool(around) or not _NOT_LISTED.search(module)) and not (
                names.get("stub") and module not in GENERATED_STUBS
            )
            for name in names.get(kind, ()) if is_listed else ():
                if around and not around.shows(module, name):
                    continue
                places.setdefault(name, {}).setdefault(module, []).append(index)
    for name, modules in sorted(places.items()):
        every = sorted(index for at in modules.values() for index in at)
        if len(every) == len(set(every)):
            chain = sorted((index, module) for module, at in modules.items() for index in at)
            yield chain[-1][1], name, chain
        else:
            for module, at in modules.items():
                yield module, name, [(index, module) for index in at]


def _of_classes(
    looked_at: list[ReleasedNames], ever: Mapping[tuple[str, str], set[str]], around: Around | None
) -> Iterator[tuple[str, str, list[int]]]:
    for module, name, chain in _chains(looked_at, "classes", around):
        below_models = bool(_MODELS.match(module))
        is_config = name.endswith("Config")
        if below_models and not _PATCHED.search(module):
            continue
        tells_all = is_config or bool(_ATTENTION.search(name)) or not below_models
        if _INTERNAL.match(module) and not (module.startswith("torch.") and _OF_INTERNALS.search(f"{module}.{name}")):
            continue
        if below_models and re.search(r"(?:FlashAttention2|SdpaAttention)$", name):
            continue
        if re.match(r"(?:vllm|sglang|diffusers\.schedulers)\b", module):
            continue
        if (name.startswith("_") and not _PRIVATE.search(name)) or not (
            around or _HOLDERS.search(name) or _ASKED.search(name)
        ):
            continue
        present = [index for index, _ in chain]
        if not is_unbroken(present):
            continue
        of: dict[str, list[int]] = {}
        elsewhere: dict[int, set[tuple[str, str]]] = {}
        own: set[str] = set()
        for index, place in chain:
            one = looked_at[index]
            found, elsewhere[index] = one.names_of_class(place, name)
            for each in found:
                of.setdefault(each, []).append(index)
            made = one.modules[place]["classes"][name]
            methods = one.modules[place].get("functions", {})
            fields = made["fields"] or ()  # are listed as parameters
            own.update(
                each
                for each in made["names"]
                if f"{name}.{each}" in methods
                or (not around and _HOLDERS.search(name) and (below_models or each not in fields))
            )
        for each, at in partial(present, of):
            if each not in own or (below_models and is_config and not _OF_CONFIG.search(each)):
                continue
            if not (tells_all or _ATTENTION.search(each)):
                continue
            if not (_is_wanted(each) or (each in _SPECIAL and _HOLDERS.search(name) and not around)):
                continue
            if not _may_be_elsewhere(each, (elsewhere[index] for index in present if index not in at), ever):
                yield f"{module}.{name}", each, at


def _may_be_elsewhere(
    name: str, elsewhere: Iterable[set[tuple[str, str]]], ever: Mapping[tuple[str, str], set[str]]
) -> bool:
    """Whether a base outside of the package may have it in a release whose own class has it not."""
    return any(not base[0] or name in ever.get(base, ()) for bases in elsewhere for base in bases)


def _of_functions(
    looked_at: list[ReleasedNames], ever: Mapping[tuple[str, str], set[str]], around: Around | None
) -> Iterator[tuple[str, str, list[int]]]:
    for module, name, chain in (*_chains(looked_at, "functions", around), *_dataclasses(looked_at, around)):
        subject = f"{module.rpartition('.')[2]}.{name}"
        below_models = bool(_MODELS.match(module))
        if not around and not (
            _ATTENTION.search(name) and _PATCHED.search(module) if below_models else _SUBJECT.search(subject)
        ):
            continue
        if name.startswith("Seq2SeqTrainingArguments") or re.search(r"(?:FlashAttention2|SdpaAttention)\.", name):
            continue  # the parameters of TrainingArguments; classes that a model chooses by itself
        if _NOBODYS.search(name) or (re.match(r"(?:vllm|sglang)\b", module) and not _ENGINE.search(name)):
            continue
        if module.startswith("trl.") and not _TRAINER.search(name):
            continue
        if _INTERNAL.match(module) and not (module.startswith("torch.") and _OF_INTERNALS.search(subject)):
            continue
        if below_models and name.endswith("Config.__init__"):
            continue  # configs of models take whatever they are given
        last = name.rpartition(".")[2]
        if last == "backward" or (last == "forward" and re.search(r"(?:Func|Function|Op)\.forward$", name)):
            continue  # of autograd's functions: nobody calls them by keyword
        if last.startswith("_") and last != "__init__" and not _PRIVATE.search(last):
            continue
        present = [index for index, _ in chain]
        if not is_unbroken(present):
            continue
        of: dict[str, list[int]] = {}
        takes_any: dict[int, bool] = {}
        elsewhere: dict[int, set[tuple[str, str]]] = {}
        for index, place in chain:
            parameters, takes_any[index], elsewhere[index] = looked_at[index].parameters(place, name)
            for each in parameters:
                of.setdefault(each, []).append(index)
        for each, at in partial(present, of):
            missing = [index for index in present if index not in at]
            if not _is_wanted(each) or _may_be_elsewhere(each, (elsewhere[index] for index in missing), ever):
                continue
            if not all(takes_any[index] for index in missing) or _HANDS_ON.search(name):
                yield f"{module}.{name}()", each, at


def _dataclasses(
    looked_at: list[ReleasedNames], around: Around | None
) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    """As `_chains`, the __init__ of classes that are a dataclass in some release."""
    for module, name, chain in _chains(looked_at, "classes", around):
        made = [looked_at[index].modules[place]["classes"][name] for index, place in chain]
        if any(one["fields"] is not None for one in made):
            kept = [
                (index, place)
                for (index, place), one in zip(chain, made, strict=True)
                if one["fields"] is not None
                or f"{name}.__init__" in looked_at[index].modules[place].get("functions", {})
            ]
            yield module, f"{name}.__init__", kept
