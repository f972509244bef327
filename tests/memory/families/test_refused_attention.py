"""refused_attention.json, which tools/refused_attention.py writes, beside the flags of transformers' classes."""

from types import SimpleNamespace

import pytest

from memlint.memory.families import lookup

FLASH = "_supports_flash_attn"


def refused(family: str, release: tuple[int, ...] = ()) -> tuple[str, ...]:
    return lookup.refused_attention(SimpleNamespace(family=family), release)


@pytest.mark.parametrize(
    ("family", "class_name"),
    [
        ("llama4", "Llama4ForConditionalGeneration"),
        ("gpt_oss", "GptOssForCausalLM"),
        ("gemma2", "Gemma2ForCausalLM"),
        ("t5", "T5ForConditionalGeneration"),
        ("qwen3", "Qwen3ForCausalLM"),
        ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"),
        ("mpnet", "MPNetForMaskedLM"),
    ],
)
def test_a_class_with_its_flags(family: str, class_name: str) -> None:
    import transformers

    cls = getattr(transformers, class_name)
    flags = {"flash_attention_2": FLASH, "sdpa": "_supports_sdpa", "flex_attention": "_supports_flex_attn"}
    assert {name: name in refused(family) for name in flags} == {
        name: not getattr(cls, flag) for name, flag in flags.items()
    }


def test_a_tower_refuses_for_the_whole_model() -> None:
    """models/siglip2/modeling_siglip2.py: the tower of LFM2-VL is built with what the model is asked for."""
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionModel

    assert not getattr(Siglip2VisionModel, FLASH)
    assert "flash_attention_2" in refused("lfm2_vl")


def test_releases_that_had_it() -> None:
    """`_supports_flash_attn = True` in models/mllama/modeling_mllama.py of 4.57.6 and 5.0.0."""
    assert "flash_attention_2" in refused("mllama", (5, 23))
    assert "flash_attention_2" not in refused("mllama", (4, 57))
    assert "flash_attention_3" in refused("llama4", (4, 57))


def test_releases_that_refused_it() -> None:
    """`_supports_sdpa = True` came to models/codegen and models/gptj in 5.24."""
    for family in ("codegen", "gptj"):
        assert "sdpa" in refused(family, (5, 23)) and "sdpa" in refused(family, (4, 57))
        assert "sdpa" not in refused(family, (5, 24)) and "sdpa" not in refused(family)


def test_a_class_beside_its_base() -> None:
    """5.24 models/gemma3/modeling_gemma3.py: Gemma3Model refuses what Gemma3PreTrainedModel takes; 5.23 took it."""
    assert "flash_attention_2" in refused("gemma3", (5, 24))
    assert "flash_attention_2" not in refused("gemma3", (5, 23))
    assert "flash_attention_2" not in refused("gemma3_text")


def test_the_rows_of_the_estimator_agree() -> None:
    """Families whose attention runs as eager one, since no other loads."""
    for family in ("bloom", "gpt_neo", "granite_swa", "vaultgemma", "xglm", "openai-gpt", "gemma2"):
        assert "sdpa" in refused(family)
        assert not lookup.loads_with_sdpa(SimpleNamespace(family=family))
