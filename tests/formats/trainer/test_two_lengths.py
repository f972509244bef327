"""Scripts that cut sources and targets to different lengths, and scripts that cut nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlint
from memlint.run import UNKNOWN, replace
from tests.comparisons.families import Step, members, run_of

# transformers' examples/summarization.ipynb of huggingface/notebooks.
SUMMARIES = """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainer, Seq2SeqTrainingArguments

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def preprocess(examples):
    model_inputs = tokenizer(examples["document"], max_length=1024, truncation=True)
    labels = tokenizer({targets}max_length=128, truncation=True)
    model_inputs["labels"] = labels["input_ids"]
    return model_inputs

data = data.map(preprocess, batched=True)
model = AutoModelForSeq2SeqLM.from_pretrained("{model}")
args = Seq2SeqTrainingArguments("out", per_device_train_batch_size=16, fp16=True)
trainer = Seq2SeqTrainer(model, args, train_dataset=data)
trainer.train()
"""


@pytest.mark.parametrize("targets", ['text_target=examples["summary"], ', 'examples["summary"], '])
def test_sources_and_targets(targets: str) -> None:
    run = memlint.estimate(SUMMARIES.format(targets=targets, model="t5-small"), path="train.py").run
    assert (run.sequence.source_length, run.sequence.length) == (1024, 128)


def test_the_two_lengths_of_a_file() -> None:
    text = "model_name_or_path: {}\noutput_dir: out\nlearning_rate: 1e-4\nper_device_train_batch_size: 2\n"
    text += "max_source_length: 512\nmax_target_length: 64\n"
    of_t5 = memlint.estimate(text.format("t5-small"), path="train.yaml").run.sequence
    of_a_decoder = memlint.estimate(text.format("Qwen/Qwen2.5-0.5B"), path="train.yaml").run.sequence
    assert (of_t5.source_length, of_t5.length) == (512, 64)
    assert (of_a_decoder.source_length, of_a_decoder.length) == (0, 512 + 64)


def test_the_length_of_the_whole_counts_beside_two_lengths() -> None:
    """`DPOConfig(max_length=args.max_source_length + args.max_target_length)`."""
    text = "model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: out\nlearning_rate: 1e-4\n"
    text += "per_device_train_batch_size: 2\nmax_source_length: 512\nmax_target_length: 64\nmax_length: 576\n"
    assert memlint.estimate(text, path="train.yaml").run.sequence.length == 576


def test_a_decoder_that_tokenizes_to_two_lengths_has_neither() -> None:
    script = SUMMARIES.replace("ForSeq2SeqLM", "ForCausalLM")
    run = memlint.estimate(script.format(targets='x["y"], ', model="Qwen/Qwen2.5-0.5B"), path="train.py").run
    assert run.sequence.length is UNKNOWN


def test_one_call_for_both_sides_cuts_both() -> None:
    both = SUMMARIES.replace("labels = tokenizer({targets}max_length=128", "both = tokenizer({targets}max_length=1024")
    run = memlint.estimate(both.format(targets='"x", text_target="y", ', model="t5-small"), path="train.py").run
    assert (run.sequence.source_length, run.sequence.length) == (0, 1024)


def test_a_longer_source_needs_more_than_a_longer_target() -> None:
    run = run_of(members()["t5"], Step("full", False, "sdpa"))
    peaks = {
        lengths: memlint.memory.estimate(
            replace(run, {"sequence.source_length": lengths[0], "sequence.length": lengths[1]})
        ).allocated_bytes
        or 0
        for lengths in ((1024, 128), (1024, 1024), (0, 1024))
    }
    assert peaks[1024, 128] < peaks[1024, 1024] == peaks[0, 1024]


def test_two_lengths_beside_a_simulated_step() -> None:
    """Measured: backward 0.15 % below the simulated step's."""
    from memlint.simulation import simulate

    config = members()["t5"]
    run = replace(run_of(config, Step("full", False, "sdpa")), {"sequence.source_length": 128, "sequence.length": 512})
    real = simulate(run, config)
    assert memlint.memory.estimate(run).allocated_bytes == pytest.approx(max(real.forward, real.backward), rel=0.01)


UNCUT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

data = data.map(lambda samples: tokenizer(samples["quote"]{truncation}), batched=True)
model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m")
args = TrainingArguments("out", per_device_train_batch_size=8, fp16=True)
trainer = Trainer(model=model, args=args, train_dataset=data["train"])
trainer.train()
"""


@pytest.mark.parametrize(("truncation", "verdict"), [("", "unknown"), (", truncation=True", "out_of_memory")])
def test_texts_that_nothing_cuts_are_not_said_to_be_as_long_as_they_can(truncation: str, verdict: str) -> None:
    """peft's examples/fp4_finetuning trains short quotes on a T4."""
    found = memlint.estimate(UNCUT.format(truncation=truncation), path="train.py", gpu="T4")
    assert found.run.sequence.length == 2048 and found.verdict == verdict


GLUE = """\
from dataclasses import dataclass, field
from transformers import AutoModelForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class DataTrainingArguments:
    model_name_or_path: str
    max_seq_length: int = field(default=64)

parser = HfArgumentParser((DataTrainingArguments, TrainingArguments))
data_args, training_args = parser.parse_args_into_dataclasses()
model = AutoModelForSequenceClassification.from_pretrained(data_args.model_name_or_path)
Trainer(model=model, args=training_args).train()
"""
EXAMPLE = "python {} --model_name_or_path {} --do_train --per_device_train_batch_size 8 --output_dir out {}\n"


@pytest.mark.parametrize(
    ("program", "model", "more", "lengths"),
    [
        ("run_summarization.py", "facebook/bart-base", "", (1024, 128)),
        ("examples/pytorch/translation/run_translation.py", "t5-small", "--max_source_length 256", (256, 128)),
        ("run_translation.py", "t5-small", "--max_target_length 64", (1024, 64)),
        ("run_qa.py", "xlm-roberta-base", "", (0, 384)),
        ("run_glue.py", "xlm-roberta-base", "", (0, 128)),
        ("run_glue.py", "xlm-roberta-base", "--max_seq_length 256", (0, 256)),
        ("train.py", "xlm-roberta-base", "", (0, 512)),  # nothing is cut: the table of positions
    ],
)
def test_what_examples_of_transformers_cut_to(program: str, model: str, more: str, lengths: tuple[int, int]) -> None:
    sequence = memlint.estimate(EXAMPLE.format(program, model, more), path="train.sh").run.sequence
    assert (sequence.source_length, sequence.length) == lengths


def test_an_example_that_the_repository_has_says_itself_what_it_cuts_to(tmp_path: Path) -> None:
    (tmp_path / "run_glue.py").write_text(GLUE, encoding="utf-8")
    (tmp_path / "train.sh").write_text(EXAMPLE.format("run_glue.py", "xlm-roberta-base", ""), encoding="utf-8")
    assert memlint.estimate(tmp_path / "train.sh").run.sequence.length == 64
