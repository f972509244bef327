"""What no release of TRL takes together, and what newer ones refuse (releases 0.8 to 1.16 were read)."""

from __future__ import annotations

import pytest

import memlint

SCRIPT = """\
{first}from trl import SFTConfig, SFTTrainer
args = SFTConfig(output_dir="o", per_device_train_batch_size=1{config})
SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args, train_dataset=data{trainer}).train()
"""


def said(config: str = "", trainer: str = "", first: str = "") -> dict[str, tuple[str, str]]:
    text = SCRIPT.format(config=config, trainer=trainer, first=first)
    found = memlint.check(text, path="train.py", fixes=False).findings
    return {one.rule: (one.severity, one.message) for one in found if one.rule.startswith("CFG")}


@pytest.mark.parametrize(
    ("config", "trainer", "severity", "words"),
    [
        (
            ", max_length=512",
            ", dataset_text_field='text'",
            "error",
            "up to trl 0.12, SFTConfig takes `max_length` from 0.16 on: no",
        ),
        (", max_length=512", ", tokenizer=tok", "warning", "SFTTrainer takes `tokenizer` up to trl 0.15, SFT"),
        (
            ", max_seq_length=512, loss_type='nll'",
            "",
            "error",
            "`max_seq_length` up to trl 0.19, and `loss_type` from",
        ),
    ],
)
def test_what_no_release_takes_together_is_said_once(config: str, trainer: str, severity: str, words: str) -> None:
    """Between two releases that follow one another a commit may take both: then it is a warning."""
    found = said(config, trainer)
    assert found.keys() == {"CFG016"}
    assert found["CFG016"][0] == severity and words in found["CFG016"][1]


@pytest.mark.parametrize(
    ("config", "trainer", "first"),
    [
        (", max_length=512", ", processing_class=tok", ""),
        (
            ", max_length=512",
            ", tokenizer=tok",
            "from unsloth import FastLanguageModel\nFastLanguageModel.get_peft_model\n",
        ),
        (", max_length=512", ", tokenizer=tok", "import inspect\ntaken = inspect.signature(SFTTrainer.__init__)\n"),
    ],
)
def test_a_script_that_one_release_takes_is_not_told_so(config: str, trainer: str, first: str) -> None:
    assert "CFG016" not in said(config, trainer, first)


@pytest.mark.parametrize(
    "given",
    [
        "kwargs = {'tokenizer': tok} if is_old() else {'processing_class': tok}",
        "kwargs = {}\nif is_old():\n    kwargs['tokenizer'] = tok\nelse:\n    kwargs['processing_class'] = tok",
        "def chosen(tok):\n    if is_old():\n        return {'tokenizer': tok}\n    return {'processing_class': tok}\n"
        "kwargs = chosen(tok)",
    ],
)
def test_an_argument_that_one_branch_gives_is_not_judged(given: str) -> None:
    """The branch may be there for the releases that take it."""
    assert not said(trainer=", **kwargs", first=f"from helpers import is_old\n{given}\n")
    assert "CFG005" in said(trainer=", tokenizer=tok")


def test_what_newer_releases_refuse_is_still_said() -> None:
    (severity, message), *others = said(trainer=", dataset_text_field='text', packing=True").values()
    assert severity == "info" and not others
    assert "no `dataset_text_field` and no `packing` since trl 0.13: SFTConfig has them" in message


@pytest.mark.parametrize(("trainer", "is_said"), [("SFT", True), ("PPO", False)])
def test_trls_ppo_counts_by_epochs(trainer: str, is_said: bool) -> None:
    """trl 0.16.1 trainer/ppo_trainer.py:184 and 378: `max_steps` of its arguments is never read."""
    script = (
        f"from trl import {trainer}Config, {trainer}Trainer\n"
        f"args = {trainer}Config(output_dir='o', max_steps=100, num_train_epochs=2)\n"
        f"{trainer}Trainer(model='Qwen/Qwen2.5-0.5B', args=args, train_dataset=data).train()\n"
    )
    found = memlint.check(script, path="train.py", fixes=False).findings
    assert any(one.rule == "TRN003" for one in found) is is_said


@pytest.mark.parametrize(("release", "is_told"), [("4.57", False), ("4.57.3", False), ("5.0", True), ("5.1.2", True)])
def test_a_stated_release_with_a_patch_number_is_of_its_minor_release(release: str, is_told: bool) -> None:
    """Trainer took `tokenizer` up to transformers 4.57.6."""
    text = (
        "from transformers import Trainer, TrainingArguments\n"
        "args = TrainingArguments(output_dir='o')\n"
        "Trainer(model='Qwen/Qwen2.5-0.5B', args=args, train_dataset=data, tokenizer=tok).train()\n"
    )
    found = memlint.check(text, path="train.py", fixes=False, versions={"transformers": release}).findings
    assert ("CFG005" in {one.rule for one in found}) is is_told


@pytest.mark.parametrize(("condition", "says"), [("k not in Mine.__annotations__", False), ("True", True)])
def test_arguments_that_a_script_sorts_by_their_class(condition: str, says: bool) -> None:
    """`TrainingArguments(**{k: v for ... if k not in ModelArguments.__annotations__})`: none of another class."""
    text = (
        "import argparse\nimport transformers\nclass Mine:\n    beta: float = 0.1\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--beta", type=float, default=0.1)\nparser.add_argument("--output_dir", default="o")\n'
        f"given = {{k: v for k, v in vars(parser.parse_args()).items() if {condition}}}\n"
        'model = transformers.AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")\n'
        "transformers.Trainer(model=model, args=transformers.TrainingArguments(**given)).train()\n"
    )
    found = memlint.check(text, path="train.py", fixes=False).findings
    assert any("takes no `beta`" in one.message for one in found) is says
