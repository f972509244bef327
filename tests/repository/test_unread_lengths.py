"""A length in a class of a repository's own is none where no code of the program reads it."""

from __future__ import annotations

import pytest

from memlint.formats.trainer import format as trainer
from memlint.repository.python.unread_lengths import is_read
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run

PARAMS = """\
from dataclasses import dataclass, field
from transformers import TrainingArguments as HFTrainingArguments

@dataclass
class ModelArguments:
    model_id: str = field(default="Qwen/Qwen2.5-7B-Instruct")

@dataclass
class TrainingArguments(HFTrainingArguments):
    max_seq_length: int = field(default=32768, metadata={"help": "Maximum sequence length."})
"""
TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer
from src.data import make_data
from src.params import ModelArguments, TrainingArguments

def train():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(model_args.model_id)
    trainer = Trainer(model=model, args=training_args, **make_data(training_args))
    trainer.train()

if __name__ == "__main__":
    train()
"""
DATA = "def make_data(training_args):\n    return dict(train_dataset=load(training_args))\n"
READS = "def make_data(training_args):\n    return dict(train_dataset=load(cut=training_args.max_seq_length))\n"
COMMAND = "torchrun --nproc_per_node 8 src/train.py --per_device_train_batch_size 4 --bf16 True --output_dir out"


def _run(script: str, data: str) -> Run:
    files = {"run.sh": f"{script}\n", "src/train.py": TRAIN, "src/params.py": PARAMS, "src/data.py": data}
    workspace = in_memory(files)
    (document,) = workspace.documents("run.sh")
    return trainer.parse(document, workspace.context()).runs[0]


@pytest.mark.parametrize("given", ["", " --max_seq_length 4096"])
def test_a_length_that_no_code_reads_is_not_known(given: str) -> None:
    run = _run(COMMAND + given, DATA)
    assert run.sequence.length is UNKNOWN
    assert "reads no `max_seq_length`" in run.origins["sequence.length"].detail


@pytest.mark.parametrize(("given", "length"), [("", 32768), (" --max_seq_length 4096", 4096)])
def test_a_length_that_code_reads_bounds_the_samples(given: str, length: int) -> None:
    assert _run(COMMAND + given, READS).sequence.length == length


def test_the_class_of_trl_reads_its_own_length() -> None:
    base, by_trl = "from transformers import TrainingArguments as", "from trl import SFTConfig as"
    files = {
        "run.sh": f"{COMMAND} --max_seq_length 4096\n",
        "src/train.py": "from trl import SFTTrainer\n" + TRAIN.replace("trainer = Trainer(", "trainer = SFTTrainer("),
        "src/params.py": PARAMS.replace(base, by_trl),
        "src/data.py": DATA,
        "requirements.txt": "trl==0.12.0\n",
    }
    workspace = in_memory(files)
    (document,) = workspace.documents("run.sh")
    assert trainer.parse(document, workspace.context()).runs[0].sequence.length == 4096


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("    max_seq_length: int = 1", False),
        ("    my_max_seq_length = 3", False),
        ("args.max_seq_length", True),
        ("getattr(args, 'max_seq_length')", True),
        ("load(max_seq_length=2)", True),
    ],
)
def test_reading_is_everything_but_the_definition(text: str, read: bool) -> None:
    assert is_read("max_seq_length", [text]) == read
