"""What each trainer's configuration must say, by the call forms that kept packed documents apart."""

from attn_doctor.probe.trace.packing_trainers import ALONE, FOUR_D, LENGTHS, SEQ_IDX, trainers


def told(safe: list[str], implementation: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in trainers(safe, implementation))


def test_a_model_that_reads_position_ids() -> None:
    said = told([ALONE, LENGTHS, SEQ_IDX, FOUR_D], "sdpa")

    assert said["LLaMA-Factory"].startswith("neat_packing: true (it gives a 4-D mask)")
    assert said["TRL"].startswith("packing=True with packing_strategy='bfd'")
    assert said["axolotl"].startswith("sample_packing: true with attn_implementation: sdpa")
    assert said["transformers"].startswith("DataCollatorWithFlattening()")


def test_a_model_that_a_mask_alone_keeps_apart() -> None:
    """gpt_oss in eager attention: position_ids alone leak."""
    said = told([FOUR_D], "eager")

    assert said["LLaMA-Factory"].startswith("neat_packing: true")
    assert said["TRL"].startswith("packing=False")
    assert said["axolotl"].startswith("sample_packing: false")
    assert said["transformers"] == "a collator that gives a 4-D mask"


def test_flash_attention_reads_position_ids_in_llama_factory_too() -> None:
    assert "position_ids alone with flash_attn: fa2" in told([ALONE], "flash_attention_2")["LLaMA-Factory"]
    assert told([FOUR_D], "flash_attention_2")["LLaMA-Factory"].startswith("packing: false")


def test_linear_attention_with_its_kernels() -> None:
    said = told([LENGTHS, SEQ_IDX], "sdpa")["transformers"]

    assert (
        said == "DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True), and no attention_mask"
    )


def test_nothing_keeps_them_apart() -> None:
    said = told([], "sdpa")

    assert said["LLaMA-Factory"].startswith("packing: false")
    assert said["transformers"] == "no packing"
