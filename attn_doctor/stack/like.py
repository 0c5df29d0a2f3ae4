"""What a configuration needs: the library of the attention that it asks for, beside torch and transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import FactSet
from attn_doctor.model.libraries import published
from attn_doctor.probe.configs import configs

#: LLaMA-Factory's short form of flash_attention_2.
_SHORT = re.compile(r"fa(\d)")


def wants_of(files: Iterable[Path]) -> tuple[str, ...]:
    """The wants of configurations, in their order, each once.

    Raises BadInput for a file that is missing or no configuration, and for an attention that no known library has.
    """
    facts = FactSet(configs.probe(tuple(files)))
    found = ["torch", "transformers"]
    for subject in facts.subjects("config"):
        kind = facts.text(f"config.{subject}.model_type")
        found += [one.distributions[0] for one in published() if kind in one.model_types]
        asked = facts.text(f"config.{subject}.effective_attention") or facts.text(f"config.{subject}.attention")
        if asked:
            found += _library(asked, facts.text(f"config.{subject}.attention_place") or subject)
    return tuple(dict.fromkeys(found))


def _library(asked: str, place: str) -> Iterator[str]:
    """The distribution of an attention as configurations call it; none for what is part of torch."""
    # `paged|` is transformers' prefix for continuous batching.
    name = _SHORT.sub(r"flash_attention_\1", asked.removeprefix("paged|"))
    if name in ("sdpa", "eager", "auto", "disabled", "math", "flex_attention"):
        return
    for library in published():
        if name in (
            library.name,
            library.attn_implementation,
            library.module,
            library.top_level,
            *library.distributions,
        ):
            yield library.distributions[0]
            return
    if "/" in name:
        yield "kernels"  # a kernel of the Hub
        return
    hint = "Name the packages that it needs yourself."
    raise BadInput(f"which package has the attention {asked!r} is not known", about=f"--like {place}", hint=hint)
