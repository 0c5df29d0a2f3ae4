"""A name that a message misses is looked up in the releases of its package."""

from __future__ import annotations

import itertools

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.names_wanted import name_wanted, with_class
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.diagnose.log.unmet import drop_unmet
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.recipes.data import names
from attn_doctor.recipes.data.names import Span
from attn_doctor.recipes.shelf import bundled, families

#: Held against the changes that brought and dropped them.
KNOWN = [
    (
        "cannot import name 'is_flash_attn_available' from 'transformers.utils' (/e/__init__.py)",
        "transformers<4.39,>=4.34",
    ),
    ("cannot import name 'is_flash_attn_available' from 'transformers.modeling_utils'", "transformers<4.35,>=4.34"),
    (
        "cannot import name 'LlamaFlashAttention2' from 'transformers.models.llama.modeling_llama' (/e/modeling.py)",
        "transformers<4.48,>=4.34",
    ),
    ("cannot import name 'ALL_ATTENTION_FUNCTIONS' from 'transformers.modeling_utils'", "transformers>=4.48,<5"),
    ("No module named 'transformers.masking_utils'", "transformers>=4.53,<5"),
    ("module 'torch.library' has no attribute 'custom_op'", "torch>=2.4"),
    ("No module named 'torch.nn.attention.flex_attention'", "torch>=2.5"),
    ("module 'torch' has no attribute 'float8_e8m0fnu'", "torch>=2.7"),
    ("No module named 'pytorch_lightning.utilities.distributed'", "pytorch-lightning<2.0"),
    ("Trainer.__init__() got an unexpected keyword argument 'gpus'", "pytorch-lightning<2.0"),
]


def test_a_class_that_moved_kept_what_it_had() -> None:
    assert names.of_member("GenerationMixin", "generate", ()) is None
    for owner, name, releases in (
        ("PreTrainedTokenizerFast", "added_tokens_decoder", ">=4.34"),
        ("LightningModule", "loggers", ">=1.6"),
        ("LightningModule", "summarize", "<1.7"),
    ):
        span = names.of_member(owner, name, ())
        assert span is not None
        assert span.range == releases


@pytest.mark.parametrize(("message", "releases"), KNOWN)
def test_the_releases_that_have_a_name_are_known(message: str, releases: str) -> None:
    found = name_wanted(message, [], FactSet())

    assert found is not None
    assert found.span.distribution + found.span.specifier == releases


def test_lightning_makes_its_trainer_through_a_function_of_its_own() -> None:
    message = "__init__() got an unexpected keyword argument 'checkpoint_callback'"

    found = name_wanted(message, ["pytorch_lightning"], FactSet())

    assert found is not None
    assert found.name == "checkpoint_callback of Trainer.__init__()"
    assert name_wanted(message, [], FactSet()) is None


@pytest.mark.parametrize(
    "message",
    [
        "cannot import name 'no_such_name' from 'transformers.utils' (/e/__init__.py)",
        "cannot import name 'is_flash_attn_available' from 'my_code.utils' (/e/utils.py)",
        # An import that goes round in a circle, and a folder without code: no release is at fault.
        "cannot import name 'custom_op' from partially initialized module 'torch.library' (most likely circular)",
        "cannot import name 'is_flash_attn_available' from 'transformers.utils' (unknown location)",
        "'MyModel' object has no attribute 'colour'",
        "f() got an unexpected keyword argument 'colour'",
    ],
)
def test_of_other_names_nothing_is_said(message: str) -> None:
    assert name_wanted(message, [], FactSet()) is None


def _there(release: str) -> FactSet:
    name = FactName.parse("package.transformers.version")
    return FactSet([Fact(name=name, state=Known(release), how="line 1", origin=Origin.DERIVED)])


def test_a_release_that_has_the_name_is_not_the_one_that_runs() -> None:
    found = name_wanted("No module named 'transformers.masking_utils'", [], _there("4.57.1"))

    assert found is not None
    assert found.claimed == "4.57.1"
    log = "transformers==4.57.1\nModuleNotFoundError: No module named 'transformers.masking_utils'"
    assert _first(log).remedies[0].id == "python-that-runs"


def test_a_release_from_before_the_table_is_too_old() -> None:
    message = "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'"
    found = name_wanted(message, ["transformers"], _there("3.3.1"))

    assert found is not None
    assert found.claimed is None
    assert found.span.since == "4.0"
    assert _first(f"transformers==3.3.1\n{message}").remedies[0].id != "call-with-the-new-name"


def _first(log: str) -> Finding:
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0]


def _asked_from(path: str) -> str:
    return (
        f'Traceback (most recent call last):\n  File "{path}", line 3, in <module>\n'
        "    from transformers.utils import is_flash_attn_available\n"
        "ImportError: cannot import name 'is_flash_attn_available' from 'transformers.utils' (/e/__init__.py)"
    )


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/e/lib/python3.11/site-packages/peft/tuners/x.py", "newer-asker"),
        ("/e/lib/python3.11/site-packages/transformers/models/x.py", "restart-after-the-change"),
        ("/e/lib/python3.11/site-packages/vllm/model_executor/x.py", "release-that-the-engine-asks-for"),
        ("/home/me/train.py", "release-with-the-name"),
        ("/home/me/.cache/huggingface/modules/transformers_modules/a/b/modeling_a.py", "release-with-the-name"),
    ],
)
def test_the_first_remedy_depends_on_who_asks(path: str, remedy: str) -> None:
    found = _first(_asked_from(path))

    assert found.id == "name-of-another-release"
    assert found.remedies[0].id == remedy


@pytest.mark.parametrize(
    ("around", "asking"),
    [
        # What calls a person's own code does not ask.
        (["/e/lib/python3.11/site-packages/accelerate/commands/launch.py", "/home/me/train.py"], None),
        (["/e/lib/python3.11/site-packages/transformers/trainer.py", "/home/me/my_model.py"], None),
        # These look an attribute up, or pass a call on, for the frame around them.
        (
            [
                "/e/lib/python3.11/site-packages/peft/tuners/x.py",
                "/e/lib/python3.11/site-packages/torch/nn/modules/module.py",
            ],
            "peft",
        ),
        (["/home/me/train.py", "/e/lib/python3.11/site-packages/accelerate/hooks.py"], None),
    ],
)
def test_the_innermost_frame_that_does_more_than_pass_on_asks(around: list[str], asking: str | None) -> None:
    frames = "".join(f'  File "{path}", line 3, in f\n    x()\n' for path in around)
    found = _first(f"Traceback (most recent call last):\n{frames}{_DROPPED}")

    assert found.remedies[0].id == ("release-with-the-name" if asking is None else "newer-asker")
    assert asking is None or asking in found.remedies[0].title


def test_a_module_that_looks_its_own_attribute_up_does_not_ask() -> None:
    found = _first(
        'Traceback (most recent call last):\n  File "/e/site-packages/unsloth_zoo/vision.py", line 256, in <module>\n'
        "    LANCZOS = PIL.Image.Resampling.LANCZOS\n"
        '  File "/usr/lib/python3/dist-packages/PIL/Image.py", line 65, in __getattr__\n'
        "    raise AttributeError(f\"module '{__name__}' has no attribute '{name}'\")\n"
        "AttributeError: module 'PIL.Image' has no attribute 'Resampling'"
    )

    assert found.id == "name-of-another-release"
    assert found.remedies[0].id == "release-around"


_DROPPED = "ImportError: cannot import name 'HybridCache' from 'transformers' (/e/transformers/__init__.py)"


@pytest.mark.parametrize(
    ("importer", "remedy"),
    [
        ("diffusers.loaders.peft", "Upgrade peft"),
        ("transformers.integrations.peft", "Upgrade peft"),
        ("transformers.trainer", "Upgrade peft"),
        ("transformers.models.llama.modeling_llama", "Restart"),
    ],
)
def test_a_lazy_import_tells_of_the_package_that_it_is_named_after(importer: str, remedy: str) -> None:
    found = _first(f"RuntimeError: Failed to import {importer} because of the following error:\n{_DROPPED[13:]}")

    assert found.remedies[0].title.startswith(remedy)


def test_a_pre_release_may_lack_what_its_release_dropped() -> None:
    there = Fact(
        name=FactName.parse("package.transformers.version"),
        state=Known("5.0.0.dev0"),
        how="line 1",
        origin=Origin.DERIVED,
    )

    assert name_wanted(_DROPPED, [], FactSet([there])) is not None


def test_an_older_asker_is_the_other_way_where_torch_has_to_stay() -> None:
    found = _first(
        'Traceback (most recent call last):\n  File "/e/site-packages/diffusers/utils/x.py", line 57, in f\n'
        "    x()\nAttributeError: module 'torch' has no attribute 'float8_e8m0fnu'"
    )

    assert [one.id for one in found.remedies][:2] == ["torch-with-the-name", "older-asker"]
    assert "diffusers" in found.remedies[1].title


@pytest.mark.parametrize("written", ["- `transformers` version: {}", "transformers=={}", "- transformers version: {}"])
def test_the_release_that_the_report_names_decides_the_direction(written: str) -> None:
    message = "TypeError: LlamaForCausalLM.__init__() got an unexpected keyword argument 'use_flash_attention_2'"

    before = _first(f"{written.format('4.33.2')}\n{message}").remedies[0]
    after = _first(f"{written.format('5.2.0')}\n{message}").remedies[0]

    assert (before.id, after.id) == ("transformers-that-knows-flash-attention", "attn-implementation-in-its-place")


def test_a_name_of_attention_that_an_unknown_package_asks_for_is_an_error() -> None:
    found = _first(
        'Traceback (most recent call last):\n  File "/e/site-packages/somelib/llama.py", line 90, in forward\n    x()\n'
        "TypeError: LlamaRotaryEmbedding.forward() missing 1 required positional argument: 'position_ids'"
    )

    assert (found.id, found.severity) == ("name-of-another-release", Severity.ERROR)


@pytest.mark.parametrize(
    ("message", "unknown"),
    [
        ("ImportError: cannot import name 'thing' from 'my_code.parts' (/home/me/my_code/parts.py)", True),
        ("ImportError: cannot import name 'is_flash_attn_available' from 'transformers.utils' (/e/__init__.py)", False),
    ],
)
def test_a_failure_is_known_only_where_its_facts_are(message: str, *, unknown: bool) -> None:
    """A text that stands everywhere does not hide that nothing is known of this failure."""
    scanner = Scanner(Patterns((*bundled(), *families())))
    log = scanner.scan("a log", [message])
    drop_unmet(log, FactSet())

    assert (log.last_failure is not None) is unknown
    assert any(one.recipe.id == "name-of-another-release" for one in log.matches) is not unknown


def test_torch_has_a_recipe_of_its_own() -> None:
    found = _first("AttributeError: module 'torch.library' has no attribute 'custom_op'")

    assert found.id == "package-needs-newer-torch"
    assert "torch 2.4 or later" in found.remedies[0].title


def test_every_span_of_the_table_is_a_range_of_releases() -> None:
    spans = {
        span for package in names.packages() for members in names.members(package).values() for span in members.values()
    }
    wrong = [
        span
        for span in spans
        if not span.specifier
        or (span.since and span.until and Version(span.since) >= Version(span.until))
        or (span.since and not SpecifierSet(span.specifier).contains(span.since))
    ]

    assert not wrong
    assert all(Version(one) for one in itertools.chain.from_iterable((s.since, s.until) for s in spans) if one)


def test_a_span_within_a_major_release_asks_for_no_later_one() -> None:
    assert Span("a", "4.36", None, "5.1").specifier == ">=4.36,<5"
    assert Span("a", "4.36", None, "5.1").range == ">=4.36"
    assert Span("a", "5.0", None, "5.1").specifier == ">=5.0"
    assert Span("a", "0.20", None, "0.36").specifier == ">=0.20"
    assert Span("a", None, "4.35", "5.1").specifier == "<4.35"


@pytest.mark.parametrize(
    ("message", "releases"),
    [
        ("AttributeError: 'MoonForMaskedLM' object has no attribute 'get_head_mask'", "<5.0"),
        ("AttributeError: 'Qwen2VLAttention' object has no attribute '_flash_attn_uses_top_left_mask'", "<4.53"),
        ("cannot import name 'SlidingWindowCache' from 'transformers.cache_utils'", "<5.0"),
    ],
)
def test_a_name_is_found_where_a_class_inherits_it_or_a_module_held_it(message: str, releases: str) -> None:
    found = name_wanted(message, [], FactSet())

    assert found is not None
    assert (found.span.distribution + found.span.specifier).startswith(f"transformers{releases}")


@pytest.mark.parametrize(
    "message",
    [
        "AttributeError: 'UNet2DConditionModel' object has no attribute 'loss_function'",
        "AttributeError: 'MoonAttention' object has no attribute '_flash_attn_uses_top_left_mask'",
        "AttributeError: 'Qwen2VLAttention' object has no attribute 'colour'",
        "cannot import name 'AutoModel' from 'transformers.cache_utils'",
    ],
)
def test_nothing_is_said_of_what_no_base_class_or_package_lost(message: str) -> None:
    assert name_wanted(message, [], FactSet()) is None


def test_what_transformers_imports_asks_for_a_name_at_its_top() -> None:
    log = (
        "RuntimeError: Failed to import transformers.{} because of the following error "
        "(look up to see its traceback):\n"
        "cannot import name 'EncoderDecoderCache' from 'transformers{}' (/e/transformers/__init__.py)"
    )

    def first(log: str) -> str:
        return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0].id

    assert first(log.format("trainer", "")) == "older-peft"
    assert first(log.format("models.llama.modeling_llama", "")) != "older-peft"
    assert first(log.format("trainer", ".cache_utils")) != "older-peft"


@pytest.mark.parametrize(
    ("calls", "message", "said"),
    [
        (
            "    trainer = DPOTrainer(\n",
            "__init__() got an unexpected keyword argument 'beta'",
            "DPOTrainer.__init__()",
        ),
        (
            '  File "Thing(x).py"\n    model = Thing(a)\n    return func(*args)\n',
            "__init__() missing 1 required",
            "Thing.__init__()",
        ),
        ("    x = Other(\n", "Known.__init__() got an unexpected keyword argument 'x'", "Known.__init__()"),
        ("    return run(x)\n", "__init__() got an unexpected keyword argument 'x'", "__init__()"),
    ],
)
def test_an_old_python_does_not_name_the_class(calls: str, message: str, said: str) -> None:
    assert with_class(message, calls).split(" ")[0] == said


def test_a_constructor_without_its_class_is_lightnings_where_that_is_named() -> None:
    log = (
        "with pytorch_lightning==2.0.8 it raises\n"
        "TypeError: __init__() got an unexpected keyword argument 'resume_from_checkpoint'"
    )

    assert "lightning" in " ".join(c for one in _first(log).remedies for a in one.actions for c in a.commands)


@pytest.mark.parametrize(
    "message", ["No module named 'fla.layers'", "cannot import name 'LinearAttention' from 'fla.layers'"]
)
def test_the_half_of_a_package_that_was_split_is_not_gone(message: str) -> None:
    """From 0.3.2 on fla.layers is in flash-linear-attention, and fla-core has the rest."""
    found = name_wanted(message, [], FactSet())

    assert found is None or found.span.until is None


@pytest.mark.parametrize(
    ("since", "until", "near"),
    [
        ("4.46", None, ">=4.46,<4.50"),
        ("4.34", "4.48", "<4.48,>=4.34"),
        ("5.3", None, ">=5.3"),
        (None, "4.39", "<4.39"),
    ],
    ids=["brought by it", "between two", "as new as what was looked at", "dropped"],
)
def test_another_package_asks_for_releases_of_its_time(since: str | None, until: str | None, near: str) -> None:
    assert Span("transformers", since, until, newest="5.6").near == near


def test_the_line_of_the_look_up_says_that_a_word_is_a_model_type() -> None:
    message, line = "KeyError: 'llava'", 'config_class = CONFIG_MAPPING[config_dict["model_type"]]'
    assert name_wanted(message, ["transformers"], FactSet()) is None
    found = name_wanted(message, ["transformers"], FactSet(), line)
    assert found is not None
    assert found.name == "model type llava"


def test_what_holds_a_missed_module_is_there() -> None:
    """Python misses the outermost first: deepspeed.ops.sparse_attention itself was dropped by 0.19."""
    holder = "No module named 'deepspeed.ops.sparse_attention"
    found = name_wanted(f"{holder}'", [], FactSet())

    assert found is not None
    assert found.span.until is not None
    assert name_wanted(f"{holder}.cpp_utils'", [], FactSet()) is None
