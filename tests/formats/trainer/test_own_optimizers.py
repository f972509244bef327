"""Optimizers that a script gives its trainer, or that a trainer class of its own makes."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN
from tests.formats.trainer.test_python_runs import keys

HEAD = """\
import torch
import bitsandbytes as bnb
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
"""
OWN = """\
class Own(Trainer):
    def create_optimizer(self):
        {}
Own(model=model, args=TrainingArguments('o')).train()
"""


@pytest.mark.parametrize(
    ("given", "optimizer"),
    [
        ("(bnb.optim.AdamW8bit(model.parameters()), None)", "adamw_8bit"),
        ("(torch.optim.SGD(model.parameters()), scheduler)", "sgd"),
        ("(None, scheduler)", None),
        ("(Muon(model.parameters()), None)", "?"),
        ("make()", "?"),
    ],
)
def test_a_trainer_takes_the_optimizer_that_it_is_given(given: str, optimizer: Any) -> None:
    code = f"{HEAD}Trainer(model=model, args=TrainingArguments('o', optim='adafactor'), optimizers={given}).train()"
    assert keys(code)["optim"] == ("adafactor" if optimizer is None else optimizer)


@pytest.mark.parametrize(
    ("body", "optimizer"),
    [
        ("self.optimizer = torch.optim.SGD(self.model.parameters())", "sgd"),
        ("return super().create_optimizer()", None),
        ("made, given = Trainer.get_optimizer_cls_and_kwargs(self.args)", None),
        ("self.optimizer = Muon(groups) if self.muon else super().create_optimizer()", "?"),
        ("self.optimizer = Muon(groups)", "?"),
        ("if plain: return super().create_optimizer()\n        self.optimizer = _OwnMuonWithAdam(groups)", "?"),
        ("self.optimizer = make(groups)", "?"),
    ],
)
def test_a_trainer_class_makes_its_own_optimizer(body: str, optimizer: Any) -> None:
    assert keys(HEAD + OWN.format(body)).get("optim") == optimizer


def test_what_the_code_makes_counts_before_a_flag() -> None:
    code = "import argparse\n" + HEAD + OWN.format("self.optimizer = Muon(a)")
    code = code.replace("'o'", "'o', optim=args.optim").replace(
        "class", "parser = argparse.ArgumentParser()\nparser.add_argument('--optim')\nargs = parser.parse_args()\nclass"
    )
    workspace = in_memory({"train.py": code, "run.sh": "python train.py --optim adamw_torch --learning_rate 1e-5"})
    (run,) = Engine(()).analyse(workspace.documents("run.sh")[0], workspace.context(gpus=1)).runs
    assert run.optimizer.name is UNKNOWN
