"""What the configuration of each trainer must say for packed documents, by the call forms that kept them apart.

Read in the trainers' own sources: LLaMA-Factory ff6d4d12e (data/collator.py, data/processor/supervised.py,
hparams/data_args.py), TRL f2cd57710 (trainer/sft_trainer.py), axolotl 067b021c8 (core/trainers/mixins/packing.py,
utils/schemas/config.py and enums.py), transformers 5.23.0 (data/data_collator.py); checked 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterable

ALONE, FOUR_D = "position_ids", "4-D mask + position_ids"
LENGTHS, SEQ_IDX = "position_ids + cu_seq_lens", "position_ids + seq_idx"
_DROPS_THE_MASK = ("sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention", "xformers", "sage")
"""attn_implementation with which axolotl gives position_ids and no mask; with others it gives a mask of ones beside."""


def trainers(safe: Iterable[str], implementation: str) -> tuple[str, ...]:
    """One sentence a trainer, for a model whose safe call forms are these."""
    kept = set(safe)
    factory = ALONE if implementation == "flash_attention_2" else FOUR_D
    return (
        f"LLaMA-Factory: {_llama_factory(factory in kept, implementation)}",
        f"TRL: {_trl(ALONE in kept)}",
        f"axolotl: {_axolotl(ALONE in kept, implementation)}",
        f"transformers: {_transformers(kept)}",
    )


def _llama_factory(safe: bool, implementation: str) -> str:
    form = "position_ids alone with flash_attn: fa2" if implementation == "flash_attention_2" else "a 4-D mask"
    if safe:
        return f"neat_packing: true (it gives {form}); packing: true alone gives a mask of ones, and documents meet"
    return f"packing: false; neat_packing: true gives {form}, which does not keep them apart here"


def _trl(safe: bool) -> str:
    if safe:
        return "packing=True with packing_strategy='bfd', or padding_free=True (position_ids, no mask); never 'wrapped'"
    return "packing=False, padding_free=False: both give position_ids alone, which does not keep them apart here"


def _axolotl(safe: bool, implementation: str) -> str:
    drops = implementation in _DROPS_THE_MASK
    if safe and drops:
        return f"sample_packing: true with attn_implementation: {implementation} (position_ids, no mask)"
    if safe:
        other = _DROPS_THE_MASK[0]
        return f"sample_packing: true with attn_implementation: {other}; with {implementation} it gives a mask of ones"
    return "sample_packing: false: it gives position_ids alone, which does not keep them apart here"


def _transformers(kept: set[str]) -> str:
    if ALONE in kept:
        return "DataCollatorWithFlattening(), and no attention_mask"
    options = [
        name
        for form, name in ((LENGTHS, "return_flash_attn_kwargs=True"), (SEQ_IDX, "return_seq_idx=True"))
        if form in kept
    ]
    if options:
        return f"DataCollatorWithFlattening({', '.join(options)}), and no attention_mask"
    return "a collator that gives a 4-D mask" if FOUR_D in kept else "no packing"
