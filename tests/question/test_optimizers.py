"""Names of optimizers in a question, and the keys that say them."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.errors import UsageError
from memlint.memory.state.optimizers import table
from memlint.question import answer, question_of
from memlint.question.model import Question
from memlint.question.optimizers import DEEPSPEED, SHORT, SWITCHES, optimizer_keys, optimizer_name


@pytest.mark.parametrize(
    ("text", "name"),
    [("AdamW", "adamw_torch"), ("paged-adamw-8bit", "paged_adamw_8bit"), ("AMSGrad", "adamw_torch_amsgrad")],
)
def test_any_spelling_is_one_name(text: str, name: str) -> None:
    assert optimizer_name(text) == name


def test_short_names_and_those_of_deepspeed_are_in_the_table() -> None:
    assert {*SHORT.values(), *DEEPSPEED} <= set(table())


@pytest.mark.parametrize(("slip", "hint"), [("adamw_8bits", "did you mean adamw_8bit"), ("q", "memlint optimizers")])
def test_a_slip_is_named(slip: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        optimizer_name(slip)


@pytest.mark.parametrize(
    ("optimizer", "zero", "keys"),
    [
        ("adamw_8bit", 3, {"optim": "adamw_8bit"}),
        ("sgd_momentum", None, {"optim": "sgd", "optim_args": "momentum=0.9"}),
        ("nadam", None, {"optim": "nadam"}),
        ("nadam", 0, {"optim": "nadam"}),
        ("nadam", 2, {}),
        *((name, None, {key: True}) for name, key in SWITCHES.items()),
    ],
)
def test_the_keys_of_an_optimizer(optimizer: str, zero: int | None, keys: dict[str, Any]) -> None:
    assert optimizer_keys(Question(optimizer=optimizer, zero=zero)) == keys


@pytest.mark.parametrize("name", [*table(), *SHORT, *SWITCHES, "sgd_momentum"])
def test_every_listed_optimizer_has_a_figure(name: str) -> None:
    found = answer(question_of({"model": "qwen2.5-0.5b", "optimizer": name, "method": "full"}))
    assert found.run.estimate.allocated_bytes
