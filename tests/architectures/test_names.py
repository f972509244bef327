"""The rules that lead from a name to a catalog entry, and those that must not."""

from __future__ import annotations

import pytest

from memlint.architectures import catalog, names, resolve

SAME = {
    "../models/Llama-2-13B-chat": "meta-llama/Llama-2-13b-chat-hf",
    "Llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "unsloth/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B-Instruct",
    "NousResearch/Meta-Llama-3.1-8B": "NousResearch/Meta-Llama-3.1-8B",
    "LLM-Research/Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3-8B-Instruct",
    "/data/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B-Instruct",
    "/data/models/Qwen/Qwen2.5-7B/": "Qwen/Qwen2.5-7B",
    "models\\Qwen2.5-7B": "Qwen/Qwen2.5-7B",
    "saves/llama3-8b/full/sft": "meta-llama/Meta-Llama-3-8B",
    "saves/qwen3-4b/full/sft/checkpoint-500": "Qwen/Qwen3-4B",
    "/tmp/Qwen2_5-0_5B-Instruct": "Qwen/Qwen2.5-0.5B-Instruct",
    "/tmp/Llama-3.2-11B-Vision-Instruct/original": "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "~/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots": "Qwen/Qwen3-8B",
    "QWEN/qwen2.5-7b-instruct": "Qwen/Qwen2.5-7B-Instruct",
    "someone/Qwen2.5-7B-Instruct-my-task": "Qwen/Qwen2.5-7B-Instruct",
}
STORED = {
    "unsloth/Qwen2.5-7B-Instruct-bnb-4bit": ("bnb", 4),
    "unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit": ("bnb", 4),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4": ("gptq", 4),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8": ("gptq", 8),
    "Qwen/Qwen2.5-7B-Instruct-AWQ": ("awq", 4),
    "ISTA-DASLab/Meta-Llama-3-8B-Instruct-AQLM-2Bit-1x16": ("aqlm", 2),
    "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8": ("fp8", 8),
    "deepseek-ai/DeepSeek-V3": ("fp8", 8),
    "openai/gpt-oss-20b": ("mxfp4", 4.25),
}
TUNED = {
    "cognitivecomputations/dolphin-2.9-llama3-8b": "meta-llama/Llama-3-8B",
    "NousResearch/Hermes-2-Pro-Mistral-7B": "mistralai/Mistral-7B-v0.1",
    "elyza/Llama-3-ELYZA-JP-8B": "meta-llama/Llama-3-8B",
    "microsoft/WizardLM-2-7B": "mistralai/Mistral-7B-v0.1",
    "allenai/tulu-2-dpo-70b": "meta-llama/Llama-2-70b-hf",
}
STRANGERS = [
    "someone/Other-LLaMA-2.7B",
    "Salesforce/blip2-flan-t5-xl",
    "someone/OpenR2-Qwen-7B",
    "someone/Other-Mamba-Falcon3-7B",
    "replit/replit-code-v1_5-3b",
    "foo/bar",
    "gpt4",
    "llama",
    "/tmp/llama2",
    "7b",
    "models/qwen2-7b-pro",
    "Qwen/Qwen2.5-8B",
    "saves/full/sft",
    "Qwen7B-Flat",
    "someone/Llama-2-7b-L40-sft",
    "someone/Llama-2-7b-24layers",
]


@pytest.mark.parametrize(("name", "canonical"), SAME.items())
def test_names_that_mean_a_listed_model(name: str, canonical: str) -> None:
    resolution = resolve(name)
    assert resolution.architecture is not None
    assert resolve(canonical).architecture == resolution.architecture
    assert names.key(resolution.name.split("/")[-1]) == names.key(canonical.split("/")[-1])
    assert resolution.inferred or name.lower() == canonical.lower()


@pytest.mark.parametrize(("name", "base"), TUNED.items())
def test_a_model_tuned_from_another_has_its_shape_by_inference(name: str, base: str) -> None:
    resolution = resolve(name)
    assert resolution.architecture is not None
    assert resolution.architecture.layer_type_ids == resolve(base).architecture.layer_type_ids
    assert resolution.architecture.hidden_size == resolve(base).architecture.hidden_size
    assert "tuned from" in resolution.inferred


@pytest.mark.parametrize(("name", "expected"), STORED.items())
def test_quantised_variants_say_how_weights_are_stored(name: str, expected: tuple[str, float]) -> None:
    architecture = resolve(name).architecture
    assert architecture is not None
    assert (architecture.stored.method, architecture.stored.bits) == expected


@pytest.mark.parametrize("name", STRANGERS)
def test_a_name_that_no_rule_covers_stays_unknown(name: str) -> None:
    resolution = resolve(name)
    assert (resolution.source, resolution.architecture) == ("unknown", None)
    assert "placeholder" in resolution.reason or "`models:` in memlint's settings" in resolution.reason


@pytest.mark.parametrize(
    ("name", "is_folder"),
    [("./training/sft/merged", True), ("/data/own/last", True), ("saves/full/sft", True), ("someone/own-model", False)],
)
def test_of_an_authors_folder_the_hub_is_not_asked(name: str, is_folder: bool) -> None:
    reason = resolve(name).reason
    assert ("is a folder that is not here" in reason) is is_folder
    assert ("--hub" in reason) is not is_folder


@pytest.mark.parametrize("name", ["axolotl-ai-co/gpt-oss-120b-dequantized", "unsloth/gpt-oss-20b-BF16"])
def test_an_unpacked_checkpoint_is_not_stored_as_the_original_is(name: str) -> None:
    entry = catalog.find(name)
    assert entry is not None
    assert catalog.architecture(entry).stored.method == "none"
    original = catalog.find(f"openai/{name.split('/')[1].rpartition('-')[0]}")
    assert original is not None and catalog.architecture(original).stored.method == "mxfp4"


@pytest.mark.parametrize("suffix", [suffix for suffix, _ in names.QUANTIZED])
def test_each_quantisation_suffix_is_cut_off_whole(suffix: str) -> None:
    cut = names.unquantized("Llama-3-8B" + suffix)
    assert cut is not None
    assert cut[0] == "Llama-3-8B"


def test_the_size_of_groups_may_follow_the_bits() -> None:
    found = names.unquantized("vicuna-13b-GPTQ-4bit-32g")
    assert found is not None
    assert (found[0], found[1].method, found[1].bits, found[1].group_size) == ("vicuna-13b", "gptq", 4, 32)
    assert names.unquantized("model-128g") is None


@pytest.mark.parametrize(
    ("name", "method", "bits", "group"),
    [
        ("Llama-2-70B-GPTQ-3bit-1g", "gptq", 3, 0),
        ("Llama-2-7b-AWQ-g64", "awq", 4, 64),
        ("a-7b-gptq-2bit", "gptq", 2, 128),
    ],
)
def test_other_numbers_of_bits_and_groups(name: str, method: str, bits: int, group: int) -> None:
    found = names.unquantized(name)
    assert found is not None
    assert (found[1].method, found[1].bits, found[1].group_size) == (method, bits, group)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("vicuna-v1-3-7b", "vicuna7bv13"),  # of LLaVA's scripts
        ("vicuna-v1.5-13b", "vicuna13bv15"),
        ("Qwen2.5-7B", ""),
        ("llava-v1.6-vicuna-7b", ""),
    ],
)
def test_a_size_may_stand_behind_its_version(name: str, key: str) -> None:
    moved = [one.key for one in names.spellings(name) if "before its version" in one.rule]
    assert moved == ([key] if key else [])
