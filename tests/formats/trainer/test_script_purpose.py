"""A Python script trains if it calls a trainer's `train`, whatever the flags of its arguments say."""

from __future__ import annotations

import pytest

import memlint

SCRIPT = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
data = data.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512))
args = {arguments}(output_dir="o"{flags})
trainer = {trainer}(model=model, args=args, train_dataset=data, eval_dataset=data)
{calls}
"""
GUARDED = "if args.do_train:\n    trainer.train()\nif args.do_eval:\n    trainer.evaluate()"


def purpose(flags: str, calls: str, trainer: str = "Trainer") -> str:
    arguments = "TrainingArguments" if trainer == "Trainer" else "SFTConfig"
    script = SCRIPT.format(flags=flags, calls=calls, trainer=trainer, arguments=arguments)
    return memlint.estimate(script, path="run.py").run.purpose


@pytest.mark.parametrize("trainer", ["Trainer", "SFTTrainer"])
@pytest.mark.parametrize("flags", ["", ", do_eval=True", ", do_train=False, do_eval=True"])
def test_what_is_called_decides(flags: str, trainer: str) -> None:
    assert purpose(flags, "trainer.train()", trainer) == "train"
    assert purpose(flags, "trainer.train()\ntrainer.evaluate()", trainer) == "train"
    assert purpose(flags, "print(trainer.evaluate())", trainer) == "inference"
    assert purpose(flags, "trainer.predict(data)", trainer) == "inference"


def test_a_call_that_a_flag_guards_follows_the_flag() -> None:
    assert purpose(", do_train=True", GUARDED) == "train"
    assert purpose(", do_train=False, do_eval=True", GUARDED) == "inference"
    assert purpose(", do_eval=True", GUARDED) == "inference"


def test_a_trainer_that_is_handed_on_may_train() -> None:
    assert purpose("", "from own import finish\nfinish(trainer)") == "train"
