"""A trainer that gets no data to evaluate on evaluates nothing, whatever its arguments say."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine

SCRIPT = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def data(name):
    return dict(train_dataset=load(name), eval_dataset={data})

args = TrainingArguments("out", per_device_train_batch_size=1, eval_strategy="steps", logging_steps=10, bf16=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
Trainer({call}).train()
"""


@pytest.mark.parametrize(
    ("call", "data", "evaluates"),
    [
        ("model, args, train_dataset=load('t')", "None", False),
        ("model, args, **data('t')", "None", False),
        ("model, args, **data('t')", "load('v')", True),
        ("model, args, train_dataset=load('t'), eval_dataset=load('v')", "None", True),
        ("model, args, collate, load('t'), load('v')", "None", True),
        ("model, args, **load('t')", "None", True),
    ],
)
def test_evaluation_needs_data(call: str, data: str, evaluates: bool) -> None:
    workspace = in_memory({"train.py": SCRIPT.format(call=call, data=data)})
    (document,) = workspace.documents("train.py")
    (run,) = Engine(()).analyse(document, workspace.context()).runs
    assert run.evaluation.enabled is evaluates
