"""Framework versions: stated, given away by keys, or the newest."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.trainer import format as trainer
from memlint.ruleset.python.newest_only import OLDER
from memlint.run import Run
from tests.formats.frameworks import context, document

TRAINER = {"model_name_or_path": "some/model", "output_dir": "out", "per_device_train_batch_size": 1}
TRL = {**TRAINER, "dataset_text_field": "text"}
LF = {"model_name_or_path": "some/model", "stage": "sft", "do_train": True, "finetuning_type": "lora", "template": "x"}


def of_trainer(value: dict[str, Any], **said: tuple[int, ...]) -> Run:
    return trainer.parse(document(value), context(versions=said)).runs[0]


def of_llamafactory(value: dict[str, Any], **said: tuple[int, ...]) -> Run:
    return llamafactory.parse(document(value), context(versions=said)).runs[0]


def test_a_key_that_is_gone_gives_the_version_away() -> None:
    run = of_trainer({**TRL, "max_seq_length": 1024})
    assert (run.stack.trl, run.stack.transformers) == ((0, 19), (4, 57))
    origin = run.origins["stack.trl"]
    assert (origin.kind, origin.pointer) == ("inferred", ("max_seq_length",))
    assert "`max_seq_length`" in origin.detail


def test_the_oldest_bound_counts_and_the_newest_version_without_one() -> None:
    assert of_trainer({**TRL, "use_liger": True, "max_seq_length": 8}).stack.trl == (0, 17)
    assert of_trainer(TRL).stack == of_trainer(TRL, transformers=(5, 24), trl=(1, 16)).stack
    assert of_trainer({**TRAINER, "warmup_ratio": 0.1, "no_cuda": False}).stack.transformers == (4, 57)
    assert of_trainer({**TRAINER, "warmup_ratio": 0.1, "evaluation_strategy": "no"}).stack.transformers == (4, 50)
    assert of_trainer({**TRAINER, "max_seq_length": 8}).stack.trl == of_trainer(TRAINER).stack.trl  # a script's own


def test_what_is_stated_is_not_second_guessed() -> None:
    run = of_trainer({**TRL, "max_seq_length": 1024}, trl=(0, 15), transformers=(4, 49))
    assert (run.stack.trl, run.stack.transformers) == ((0, 15), (4, 49))


@pytest.mark.parametrize(
    ("transformers", "trl"),
    [
        ((4, 41, 1), (0, 11)),
        ((4, 39), (0, 10)),
        ((4, 45), (0, 11)),
        ((4, 46, 3), (0, 17)),
        ((4, 53), (0, 20)),  # of 4.53 nobody knows the patch: 4.53.2 would do
        ((4, 53, 1), (0, 19)),
        ((4, 56), (1, 16)),
        ((4, 57, 1), (1, 16)),
        ((5, 23), (1, 16)),
    ],
)
def test_a_stated_transformers_bounds_trl(transformers: tuple[int, ...], trl: tuple[int, ...]) -> None:
    run = of_trainer(TRL, transformers=transformers)
    assert (run.stack.trl, run.stack.transformers) == (trl, transformers)
    assert of_trainer({**TRL, "use_liger": True}, transformers=transformers).stack.trl == min(trl, (0, 17))


def test_old_weights_load_in_float32_where_no_dtype_is_given() -> None:
    """transformers 4 loads in fp32 unless told; 5 in the checkpoint's dtype."""
    assert of_trainer({**TRAINER, "no_cuda": False}).model.weights_dtype == "float32"


@pytest.mark.parametrize(
    ("keys", "said", "release", "transformers"),
    [
        ({}, {}, (0, 9, 5), (5, 8)),
        ({"evaluation_strategy": "no"}, {}, (0, 9, 3), (4, 50)),  # 0.9.4 wants 4.51
        ({"visual_inputs": True}, {}, (0, 8), (4, 40)),
        ({"video_resolution": 1}, {}, (0, 9, 1), (4, 46)),
        ({}, {"llamafactory": (0, 9, 2)}, (0, 9, 2), (4, 49)),
        ({}, {"transformers": (4, 45)}, (0, 9, 3), (4, 45)),
        ({"visual_inputs": True}, {"llamafactory": (0, 9, 4)}, (0, 9, 4), (4, 57)),
    ],
)
def test_llamafactory_releases_and_what_they_allow(
    keys: dict[str, Any], said: dict[str, Any], release: tuple[int, ...], transformers: tuple[int, ...]
) -> None:
    stack = of_llamafactory({**LF, **keys}, **said).stack
    assert (stack.framework_version, stack.transformers) == (release, transformers)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"finetuning_type": "full", "pure_bf16": True, "optim": "adamw_8bit"},
    {"quantization_bit": 4, "quantization_method": "bnb", "bf16": True},
    {"deepspeed": "ds.json", "bf16": True, "gradient_checkpointing": False},
    {"stage": "dpo", "fp16": True, "flash_attn": "fa2", "enable_liger_kernel": True, "packing": True},
    {"stage": "pt", "use_badam": True, "eval_strategy": "steps", "val_size": 0.1, "cutoff_len": 4096},
    {"do_train": False, "do_predict": True, "predict_with_generate": True},
    {"fsdp": "full_shard auto_wrap", "bf16": True},
]


@pytest.mark.parametrize("more", VARIANTS, ids=str)
def test_releases_that_llamafactory_does_not_read_give_the_same_run(more: dict[str, Any]) -> None:
    newest, older = of_llamafactory({**LF, **more}), of_llamafactory({**LF, **more}, **OLDER)
    same = newest._replace(stack=older.stack, origins={}) == older._replace(origins={})

    assert same or llamafactory.reads_releases(newest)
    assert older.stack != newest.stack


def test_fsdp_is_another_one_since_transformers_5_10() -> None:
    newest = of_llamafactory({**LF, **VARIANTS[-1]}, transformers=(5, 10))
    assert llamafactory.reads_releases(newest)
    assert newest.parallelism.fsdp != of_llamafactory({**LF, **VARIANTS[-1]}, **OLDER).parallelism.fsdp
