"""Lengths of scripts that put their tokens together and cut them into blocks."""

from __future__ import annotations

import pytest

import memlint
from memlint.run import UNKNOWN

# transformers' examples/pytorch/language-modeling/run_clm.py, and the documentation's tasks/language_modeling.
SCRIPT = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
block_size = 128

def tokens(examples):
    return tokenizer(examples["text"])

def group_texts(examples):
    joined = {{k: sum(examples[k], []) for k in examples.keys()}}
    total = len(joined[list(examples.keys())[0]]) // block_size * block_size
    result = {{k: {blocks} for k, t in joined.items()}}
    result["labels"] = result["input_ids"].copy()
    return result

data = data.map(tokens, batched=True).map(group_texts, batched=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = Trainer(model=model, args=TrainingArguments(output_dir="o"), train_dataset=data)
trainer.train()
"""


@pytest.mark.parametrize(
    ("blocks", "length"),
    [
        ("[t[i : i + block_size] for i in range(0, total, block_size)]", 128),
        ("[t[i : block_size + i] for i in range(0, total, block_size)]", UNKNOWN),
        ("[t[i : i + 8] for i in range(0, total, 8)]", UNKNOWN),
    ],
)
def test_blocks_of_concatenated_texts(blocks: str, length: object) -> None:
    assert memlint.estimate(SCRIPT.format(blocks=blocks), path="train.py").run.sequence.length == length


COLLATED = """\
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

def collate(examples):
    return tokenizer([one["text"] for one in examples]{cut})

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = SFTConfig("out", per_device_train_batch_size=1, dataset_kwargs={{"skip_prepare_dataset": {skips}}}{length})
SFTTrainer(model=model, args=args, data_collator=collate).train()
"""


@pytest.mark.parametrize(
    ("skips", "cut", "length", "found"),
    [
        (True, "", "", UNKNOWN),
        (True, ", truncation=True, max_length=640", "", 640),
        (True, "", ", max_length=512", 512),
        (False, "", "", 1024),
    ],
)
def test_a_collator_of_the_scripts_own_decides_where_nothing_is_prepared(
    skips: bool, cut: str, length: str, found: object
) -> None:
    script = COLLATED.format(skips=skips, cut=cut, length=length)
    assert memlint.estimate(script, path="train.py").run.sequence.length == found


TOKENIZED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")

def tokens(examples):
    return tokenizer(examples["text"], truncation=True, max_length=512{padding})

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
Trainer(model=model, args=TrainingArguments("o"), train_dataset=data.map(tokens)).train()
"""
BLOCKS = SCRIPT.format(blocks="[t[i : i + block_size] for i in range(0, total, block_size)]")


@pytest.mark.parametrize(
    ("script", "is_bound"),
    [
        (TOKENIZED.format(padding=', padding="max_length"'), False),
        (TOKENIZED.format(padding=", padding=True"), True),  # to the longest text of a batch
        (TOKENIZED.format(padding=""), True),
        (BLOCKS, False),
    ],
)
def test_where_every_text_is_as_long_as_the_longest_may_be(script: str, is_bound: bool) -> None:
    run = memlint.estimate(script, path="train.py").run
    assert (run.sequence.length in (128, 512), run.sequence.length_is_bound) == (True, is_bound)
    files = {"train.py": script, "train.sh": "torchrun --nproc_per_node 2 train.py\n"}
    launched = memlint.estimate(files["train.sh"], path="train.sh", files=files).run
    assert launched.sequence.length_is_bound == is_bound


OWN_COLLATOR = """\
from transformers import AutoModelForCausalLM
from trl import DataCollatorForCompletionOnlyLM, SFTConfig, SFTTrainer

class Tree(DataCollatorForCompletionOnlyLM):
    def __init__(self, max_length):
        self.max_length = max_length

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = SFTConfig("out", per_device_train_batch_size=1, max_length=8192)
SFTTrainer(model=model, args=args, data_collator=Tree(max_length={bound})).train()
"""


@pytest.mark.parametrize(("bound", "found"), [(4096, UNKNOWN), (8192, 8192), ("None", 8192)])
def test_a_collator_of_the_script_may_cut_to_a_lower_length(bound: object, found: object) -> None:
    run = memlint.estimate(OWN_COLLATOR.format(bound=bound), path="train.py").run
    assert run.sequence.length == found


POSITIONS = """\
from transformers import Trainer, TrainingArguments

def {function}:
    return table

{call}
Trainer(model=model, args=TrainingArguments(output_dir="o", per_device_train_batch_size=1), train_dataset=data).train()
"""


@pytest.mark.parametrize(
    ("function", "call", "length"),
    [
        ("cut_all(rows, max_seq_len)", "cut_all(rows, 512)", 512),
        ("positions(max_seq_len, hidden_dim)", "positions(2048, 64)", UNKNOWN),
        ("rotary(dim, max_seq_len, theta)", "rotary(64, 2048, 10000.0)", UNKNOWN),
    ],
)
def test_the_length_of_a_table_of_positions_cuts_nothing(function: str, call: str, length: object) -> None:
    script = POSITIONS.format(function=function, call=call)
    assert memlint.estimate(script, path="train.py").run.sequence.length == length
