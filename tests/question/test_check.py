"""Slips in a question: every message names the option and what may have been meant."""

from __future__ import annotations

import pytest

from memlint.errors import UsageError
from memlint.question import answer, question_of
from memlint.question.model import Question

SLIPS = [
    ({"model": "phi-2", "method": "qlra"}, "--method qlra.*did you mean qlora"),
    ({"model": "phi-2", "lenght": 3}, "--lenght.*did you mean --length"),
    ({"model": "phi-2", "optimizer": "adamw_8bits"}, "--optimizer adamw_8bits.*did you mean adamw_8bit"),
    ({"model": "phi-2", "gpu": "RTX4099"}, "RTX 4090"),
    ({"model": "phi-2", "gpu": "A100"}, "say A100-40GB, A100-64GB or A100-80GB"),
    ({"model": "phi-2", "dtype": "int9"}, "--dtype int9: not known"),
    ({"model": "phi-2", "bits": 5}, "--bits 5: one of 4, 8"),
    ({"model": "phi-2", "batch": 0}, "--batch 0: wants a whole number from 1"),
    ({"model": "phi-2", "batch": "4"}, "--batch '4': wants a whole number"),
    ({"model": "phi-2", "batch": True}, "--batch True: wants a whole number"),
    ({"model": "phi-2", "liger": "yes"}, "--liger 'yes': wants true or false"),
    ({"model": 7}, "--model 7: wants a name"),
    ({}, "no model"),
    ({"hidden": 4096}, "--layers and --hidden"),
    ({"layers": 4, "hidden": 100, "heads": 3}, "--heads 3: does not divide"),
    ({"layers": 4, "hidden": 512, "heads": 8, "kv_heads": 3}, "--kv-heads 3: does not divide"),
    ({"model": "phi-2", "context": 4096}, "--context is about inference"),
    ({"model": "phi-2", "inference": True, "length": 4096}, "--length is about training"),
    ({"model": "phi-2", "zero": 3, "fsdp": 2}, "--zero and --fsdp"),
    ({"model": "phi-2", "offload": "all"}, "--offload needs"),
    ({"model": "phi-2", "zero": 2, "offload": "all"}, "only ZeRO-3 moves parameters"),
    ({"model": "phi-2", "fsdp": 2, "offload": "optimizer"}, "--offload all"),
    ({"model": "phi-2", "method": "full", "bits": 4}, "quantised weights do not train"),
    ({"model": "phi-2", "inference": True, "context": 100, "new_tokens": 100}, "--new-tokens"),
    ({"model": "phi-2", "inference": True, "engine": "vllm", "bits": 4}, "GPTQ, AWQ or FP8"),
    ({"model": "phi-2", "inference": True, "engine": "transformers", "kv_dtype": "fp8"}, "vLLM alone"),
    ({"model": "phi-2", "inference": True, "memory_share": 1.5}, "--memory-share 1.5"),
    ({"model": "phi-2", "framework": "trl", "stage": "kto"}, "take llamafactory"),
    ({"model": "lama-3-8b"}, "did you mean .*Llama-3-8B"),
    ({"model": "mistal-7b"}, "did you mean .*[Mm]istral-7[Bb]"),
    ({"model": "qwn2.5-7b"}, "did you mean .*Qwen2.5-7B"),
    ({"model": "nobody/has-this"}, "--model nobody/has-this"),
    ({"model": "/no/such/folder"}, "--model /no/such/folder"),
]


@pytest.mark.parametrize(("asked", "message"), SLIPS, ids=lambda value: str(value)[:60])
def test_a_slip_is_named_with_what_was_meant(asked: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        answer(question_of(asked))


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("llama3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("phi-2", "microsoft/phi-2"),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
    ],
)
def test_short_names(name: str, identifier: str) -> None:
    files = answer(question_of({"model": name})).files
    assert f"model_name_or_path: {identifier}\n" in files.contents["train.yaml"]


@pytest.mark.parametrize(
    ("word", "field", "meant"),
    [
        ("bfloat16", "dtype", "bf16"),
        ("FP16", "dtype", "fp16"),
        ("fa2", "attention", "flash_attention_2"),
        ("hf", "engine", "transformers"),
        ("Adam", "optimizer", "adamw_torch"),
        ("AMSGrad", "optimizer", "adamw_torch_amsgrad"),
        ("NAdam", "optimizer", "nadam"),
        ("paged-adamw-8bit", "optimizer", "paged_adamw_8bit"),
    ],
)
def test_other_words_for_the_same_thing(word: str, field: str, meant: str) -> None:
    more = {"inference": True} if field == "engine" else {}
    assert getattr(question_of({"model": "phi-2", field: word, **more}), field) == meant


def test_a_question_is_frozen_and_equal_by_value() -> None:
    question = question_of({"model": "phi-2", "kv-heads": 8, "gpu": None})
    assert question == Question(model="phi-2", kv_heads=8)
    with pytest.raises(AttributeError):
        question.model = "other"  # type: ignore[misc]
