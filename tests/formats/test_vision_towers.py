"""What says that no sample has an image, so that the figure of an image-text model does not stand for images."""

from __future__ import annotations

import pytest

import memlint
from memlint.run import UNKNOWN

MODEL = "google/gemma-3-4b-it"
LLAMAFACTORY = f"""\
model_name_or_path: {MODEL}
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
cutoff_len: 1024
output_dir: out
"""
AXOLOTL = f"""\
base_model: {MODEL}
datasets: [{{path: d, type: chat_template}}]
micro_batch_size: 1
gradient_accumulation_steps: 4
sequence_len: 1024
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
optimizer: adamw_torch
learning_rate: 1e-4
"""
TRL = f"""\
model_name_or_path: {MODEL}
dataset_name: trl-lib/Capybara
output_dir: out
per_device_train_batch_size: 1
learning_rate: 1.0e-4
max_length: 1024
use_peft: true
"""
SCRIPT = """\
from transformers import {classes}, DataCollatorForSeq2Seq
from trl import SFTConfig, SFTTrainer

model = "google/gemma-3-4b-it"
reads = {reads}
args = SFTConfig(max_length=1024, per_device_train_batch_size=1, output_dir="out")
SFTTrainer(model, args, train_dataset=data, {given}).train()
"""
UNSLOTH = """\
from trl import SFTConfig, SFTTrainer
from unsloth import FastModel
from unsloth.trainer import UnslothVisionDataCollator

model, tokenizer = FastModel.from_pretrained("unsloth/gemma-3-4b-it", max_seq_length=1024)
model = FastModel.get_peft_model(model, r=8)
args = SFTConfig(per_device_train_batch_size=1, output_dir="out"{field})
SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=data, args=args{collator}).train()
"""


def images(text: str, path: str = "train.yaml", stated: int | None = None) -> object:
    run = memlint.estimate(text, path=path, gpu="A100-80GB", gpus=1, images=stated).run
    assert str(run.model.name).endswith("gemma-3-4b-it")
    return run.sequence.images


@pytest.mark.parametrize(("template", "expected"), [("gemma", 0), ("gemma3", UNKNOWN), ("own", UNKNOWN)])
def test_a_template_of_llamafactory_takes_images_or_none(template: str, expected: object) -> None:
    text = f"{LLAMAFACTORY}template: {template}\n"
    assert images(text) == expected
    run = memlint.estimate(text, path="train.yaml", gpu="A100-80GB").run
    assert run.sequence.always_has_images == (expected != 0)
    assert images(text, stated=2) == 2


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", 0),
        ("processor_type: AutoProcessor\n", UNKNOWN),
        ("processor_type: AutoProcessor\nsample_packing: true\n", 0),
        ("plugins: [axolotl.integrations.liger.LigerPlugin]\n", 0),
        ("plugins: [mine.CollatorPlugin]\n", UNKNOWN),
    ],
)
def test_axolotl_needs_a_processor_for_images(more: str, expected: object) -> None:
    assert images(AXOLOTL + more) == expected
    assert images(AXOLOTL + more, stated=1) == 1


@pytest.mark.parametrize(("more", "expected"), [("", UNKNOWN), ("packing: true\n", 0)])
def test_trl_packs_no_images(more: str, expected: object) -> None:
    assert images(TRL + more) == expected


TOKENIZER = ("AutoTokenizer", "AutoTokenizer.from_pretrained(model)")
PROCESSOR = ("AutoProcessor", "AutoProcessor.from_pretrained(model)")


@pytest.mark.parametrize(
    ("made", "given", "expected"),
    [
        (TOKENIZER, "processing_class=reads", 0),
        (TOKENIZER, "processing_class=reads, data_collator=DataCollatorForSeq2Seq(reads)", 0),
        (TOKENIZER, "processing_class=reads, data_collator=lambda rows: collate(rows)", UNKNOWN),
        (PROCESSOR, "processing_class=reads", UNKNOWN),
        (PROCESSOR, "processing_class=reads.tokenizer", UNKNOWN),
        (TOKENIZER, "peft_config=None", UNKNOWN),
    ],
)
def test_a_script_with_a_tokenizer_alone_feeds_texts(made: tuple[str, str], given: str, expected: object) -> None:
    classes, reads = made
    assert images(SCRIPT.format(classes=classes, reads=reads, given=given), "train.py") == expected


@pytest.mark.parametrize(
    ("field", "collator", "expected"),
    [
        (', dataset_text_field="text"', "", 0),
        ("", "", UNKNOWN),
        (', dataset_text_field="text"', ", data_collator=UnslothVisionDataCollator(model, tokenizer)", UNKNOWN),
    ],
)
def test_the_tokenizer_of_unsloth_may_be_a_processor(field: str, collator: str, expected: object) -> None:
    assert images(UNSLOTH.format(field=field, collator=collator), "train.py") == expected


def test_texts_alone_narrow_the_interval() -> None:
    """The tower of an adapter on all linear layers gets gradients from images only."""
    texts = memlint.estimate(AXOLOTL, path="train.yaml", gpu="A100-80GB", gpus=1)
    images = memlint.estimate(f"{AXOLOTL}processor_type: AutoProcessor\n", path="train.yaml", gpu="A100-80GB", gpus=1)
    assert texts.device_bytes is not None and images.device_bytes is not None
    assert texts.device_bytes < images.device_bytes
    assert (texts.device_high_bytes or 0) < (images.device_high_bytes or 0)
    assert texts.device_low_bytes == pytest.approx(images.device_low_bytes, rel=0.01)
