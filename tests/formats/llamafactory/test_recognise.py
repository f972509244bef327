"""Files are known by their keys: what LLaMA-Factory reads, and what only looks like it."""

from __future__ import annotations

import pytest

from memlint.formats import recognise
from memlint.formats.llamafactory.format import recognise as judge
from tests.formats.llamafactory.files import document

LORA = "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: d\ntemplate: llama3\n"


@pytest.mark.parametrize(
    ("text", "confidence", "role"),
    [
        (LORA, "certain", "training"),
        (LORA.replace("do_train: true\n", "output_dir: o\nlearning_rate: 1e-4\n"), "certain", "training"),
        ("model_name_or_path: m\ntemplate: llama3\ninfer_backend: vllm\n", "certain", "inference"),
        ("model_name_or_path: m\nadapter_name_or_path: a\ntemplate: qwen\nexport_dir: o\n", "certain", "export"),
        (LORA.replace("do_train", "do_predict"), "certain", "inference"),
        ("model: m\nmodel_class: llm\ntrain_dataset: d\nmicro_batch_size: 1\n", "certain", "training"),
        ("model: m\npeft_config: {name: lora, export_dir: o}\n", "likely", "export"),
    ],
)
def test_what_llama_factory_reads(text: str, confidence: str, role: str) -> None:
    found = judge(document(text))
    assert (found.confidence, found.role) == (confidence, role)


@pytest.mark.parametrize(
    "text",
    [
        "- 1\n",
        "",
        "alpaca: {file_name: alpaca.json}\nother: {hf_hub_url: x}\n",  # dataset_info.json
        "base_model: m\nadapter: lora\nlora_r: 8\nmicro_batch_size: 1\nsequence_len: 2048\nflash_attention: true\n",
        "model_name_or_path: m\noutput_dir: o\nlearning_rate: 1e-4\nper_device_train_batch_size: 1\n",  # HF Trainer
        "model_name_or_path: m\ntrain_file: f\ntemplate_name: t\nlora_rank: 8\nmax_seq_length: 1\nuse_unsloth: true\n",
        "model: {_component_: torchtune.models.llama3.llama3_8b}\ntokenizer: {path: x}\n",
        "zero_optimization: {stage: 3}\ntrain_batch_size: auto\n",
        "distributed_type: FSDP\nnum_processes: 8\n",
        "stage: sft\n",
    ],
)
def test_what_it_does_not_read(text: str) -> None:
    assert judge(document(text)).confidence == "no"


def test_settings_of_a_program_that_answers_with_a_tuned_model_are_not_llama_factorys() -> None:
    text = '{"model_name_or_path": "m", "adapter_name_or_path": "a", "template": "qwen"%s}'
    assert judge(document(text % ', "max_new_tokens": 8', "a.json")).role == "inference"
    assert judge(document(text % ', "device": "cuda"', "a.json")).confidence == "no"


def test_the_name_of_the_file_does_not_matter() -> None:
    for path in ("a.yaml", "llamafactory_lora_sft.yaml", "ds_config.yaml"):
        assert judge(document(LORA, path)) == judge(document(LORA))


def test_the_firmest_claim_wins() -> None:
    found = recognise(document(LORA))
    assert found is not None and found[0].NAME == "llamafactory"
    assert recognise(document("hello: world\n")) is None
