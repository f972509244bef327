"""A table of learned positions bounds a sequence; rotary embeddings do not."""

from __future__ import annotations

import pytest

import memlint
from memlint.architectures.position_table import longest_sequence
from memlint.architectures.resolve import resolve

SCRIPT = """\
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("{model}")
data = data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("{model}", num_labels=2)
args = TrainingArguments(output_dir="o", per_device_train_batch_size=16)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("bert-base-uncased", 512),
        ("roberta-base", 512),  # 514 rows
        ("facebook/opt-125m", 2048),  # 2050 rows
        ("gpt2", 1024),
        ("Qwen/Qwen2.5-0.5B", 0),
        ("google-t5/t5-small", 0),
    ],
)
def test_the_longest_sequence_of_a_table(model: str, tokens: int) -> None:
    assert longest_sequence(resolve(model, ()).architecture) == tokens


def test_a_script_that_names_no_length_has_that_of_the_table() -> None:
    found = memlint.estimate(SCRIPT.format(model="bert-base-uncased"), path="train.py")
    assert found.run.sequence.length == 512
    assert found.verdict != "unknown" or found.device_bytes
    assert memlint.estimate(SCRIPT.format(model="Qwen/Qwen2.5-0.5B"), path="train.py").device_bytes is None
