"""What a checkpoint's `quantization_config` says of the weights as they are stored."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures.model import StoredWeights
from memlint.architectures.stored import stored_weights, weights_dtype

FOUR = {"quant_method": "bitsandbytes", "load_in_4bit": True}


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        # as transformers writes them: unsloth/*-bnb-4bit, *-GPTQ-Int4, *-AWQ, DeepSeek-V3
        (
            {
                **FOUR,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
                "llm_int8_skip_modules": ["lm_head"],
            },
            StoredWeights("bnb", 4, "nf4", 64, True, ("lm_head",)),
        ),
        (FOUR, StoredWeights("bnb", 4, "fp4", 64)),
        ({"load_in_8bit": True}, StoredWeights("bnb", 8, "int8")),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, StoredWeights("gptq", 4, "int4", 32)),
        ({"quant_method": "awq", "bits": 4}, StoredWeights("awq", 4, "int4", 128)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, StoredWeights("fp8", 8, "float8_e4m3", 128)),
        ({"quant_method": "aqlm", "bits": 2}, StoredWeights("aqlm", 2)),
        ({"quant_method": "hqq"}, StoredWeights("hqq", 8)),
    ],
)
def test_each_method_has_its_bits_and_groups(said: dict[str, Any], stored: StoredWeights) -> None:
    assert stored_weights({"quantization_config": said}) == stored


@pytest.mark.parametrize("said", [None, {}, "gptq", [4]])
def test_what_says_nothing_is_not_quantised(said: object) -> None:
    assert stored_weights({"quantization_config": said}) == stored_weights({}) == StoredWeights()


@pytest.mark.parametrize("bits", [0, -4, True, "4", 10**9, None])
def test_an_absurd_size_is_the_method_s_usual_one(bits: object) -> None:
    assert stored_weights({"quantization_config": {"quant_method": "gptq", "bits": bits}}).bits == 4


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({}, "float32"),
        ({"torch_dtype": "float16", "quantization_config": {"quant_method": "fp8"}}, "float16"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "bfloat16"),  # openai/gpt-oss-20b
        ({"quantization_config": {"quant_method": "fp8"}}, "bfloat16"),  # MiniMaxAI/MiniMax-M2.5
        ({"text_config": {"dtype": "bfloat16"}}, "bfloat16"),
    ],
)
def test_what_is_not_packed_has_a_dtype(config: dict[str, Any], dtype: str) -> None:
    assert weights_dtype(config) == dtype
