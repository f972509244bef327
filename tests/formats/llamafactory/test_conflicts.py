"""Combinations that LLaMA-Factory refuses, each with the check in its source; and what it lets pass."""

from __future__ import annotations

import pytest

from tests.formats.llamafactory.files import BASE, messages, parse

ZERO3 = {"z3.json": '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto"}'}

REFUSED = [
    ("quantization_bit: 4", "full", "LoRA or OFT"),  # hparams/parser.py:237
    ("quantization_bit: 4\npissa_init: true", "lora", "PiSSA"),  # parser.py:240
    ("quantization_bit: 4\nresize_vocab: true", "lora", "resized"),  # parser.py:243
    ("adapter_name_or_path: a", "full", "adapters"),  # parser.py:233
    ("use_galore: true", "lora", "GaLore"),  # finetuning_args.py:616
    ("use_galore: true\nuse_badam: true", "full", "exclude"),  # finetuning_args.py:619
    ("use_dora: true", "full", "LoRA alone"),  # finetuning_args.py:632
    ("use_llama_pro: true", "full", "LLaMA Pro"),  # finetuning_args.py:613
    ("pure_bf16: true\ndeepspeed: z3.json", "full", "ZeRO-3"),  # parser.py:503
    ("quantization_bit: 8\ndeepspeed: z3.json", "lora", "8-bit"),  # model_utils/quantization.py:199
    ("use_galore: true\ndeepspeed: z3.json", "full", "DeepSpeed"),  # parser.py:519
    ("fp8: true\nquantization_bit: 4", "lora", "FP8"),  # parser.py:527
    ("eval_strategy: steps", "lora", "eval_dataset"),  # parser.py:483
    ("val_size: 0.1\neval_dataset: e", "lora", "exclude"),  # data_args.py:163
    ("streaming: true", "lora", "max_steps"),  # parser.py:475
    ("streaming: true\nmax_steps: 10\nmax_samples: 5", "lora", "streaming"),  # data_args.py:180
    ("streaming: true\nmax_steps: 10\ngroup_by_length: true", "lora", "streaming"),  # transformers 5.1.0 trainer.py:686
    ("neat_packing: true\nflash_attn: fa2\nper_device_train_batch_size: 2", "lora", "one sequence"),  # collator.py:539
    ("quantization_bit: 3", "lora", "4 or 8 bits"),  # model_utils/quantization.py:192
    ("infer_backend: vllm", "lora", "inference"),  # parser.py:530
    ("image_max_pixels: 1", "lora", "image_min_pixels"),  # model_args.py:348
    ("use_galore: true\ngalore_layerwise: true\ngradient_accumulation_steps: 8", "full", "accumulation"),
    ("use_galore: true\noptim: lion_8bit", "full", "takes only"),  # train/trainer_utils.py:246
]


@pytest.mark.parametrize(("keys", "kind", "word"), REFUSED)
def test_refused(keys: str, kind: str, word: str) -> None:
    found = messages(parse(BASE.format(kind=kind) + keys, ZERO3, gpus=8), "conflict")
    assert any(word in message for message in found), found


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("quantization_bit: 4\nbf16: true", "lora"),
        ("quantization_bit: 4\ndeepspeed: z3.json", "lora"),
        ("val_size: 0.1\neval_strategy: steps", "lora"),
        ("use_galore: true\noptim: adamw_8bit\npure_bf16: true", "full"),
        ("use_badam: true", "full"),
        ("streaming: true\nmax_steps: 100", "lora"),
        ("eval_strategy: 'no'", "full"),
        ("pissa_init: true", "lora"),
        ("val_size: ${share}\neval_strategy: steps", "lora"),
    ],
)
def test_allowed(keys: str, kind: str) -> None:
    assert not messages(parse(BASE.format(kind=kind) + keys, ZERO3, gpus=1), "conflict")


def test_the_issue_points_at_the_key_that_is_to_blame() -> None:
    parsed = parse(BASE.format(kind="full") + "quantization_bit: 4\n")
    assert [issue.pointer for issue in parsed.issues if issue.code == "conflict"] == [("quantization_bit",)]


def test_layerwise_optimizers_need_one_gpu() -> None:
    keys = "use_galore: true\ngalore_layerwise: true\ngradient_accumulation_steps: 1\n"
    assert messages(parse(BASE.format(kind="full") + keys, gpus=2), "conflict")
    assert not messages(parse(BASE.format(kind="full") + keys, gpus=1), "conflict")
    assert not messages(parse(BASE.format(kind="full") + keys), "conflict")  # how many is not known: no guess


def test_what_the_command_line_may_still_add_is_a_warning() -> None:
    text = BASE.format(kind="lora").replace("dataset: d\n", "")
    assert [issue.severity for issue in parse(text).issues if issue.code == "conflict"] == ["warning"]
