"""What a program makes of its flags: expressions of them, and assignments behind the parser."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from memlint.repository.scripts.handed_on import assignments, value_of

FLAGS = {"fp16": True, "bf16": False, "batch": 4, "rate": "2e-5", "steps": 0}


def evaluated(text: str) -> Any:
    return value_of(ast.parse(text, mode="eval").body, FLAGS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("args.fp16 and not args.bf16", True),
        ("not args.fp16", False),
        ("args.steps or 10", 10),
        ("args.batch if args.batch > 2 else 2", 4),
        ("getattr(args, 'bf16', True)", False),
        ("getattr(args, 'tf32', True)", True),
        ("float(args.rate)", 2e-5),
        ("args.batch is None", False),
        ("args.fp16 and torch.cuda.is_available()", True),
        ("bool(args.steps)", False),
    ],
)
def test_an_expression_of_flags_has_its_value(text: str, value: Any) -> None:
    assert evaluated(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "args.other",
        "args.batch // world",
        "compute(args.batch)",
        "int(args.rate)",
        "args.rate > 1",
        "getattr(args, 'tf32')",
        "args.model.dtype",
        "1 < args.batch < 3",
    ],
)
def test_any_other_expression_is_not_known(text: str) -> None:
    with pytest.raises(LookupError):
        evaluated(text)


PROGRAM = """
args = parser.parse_args()
args.eval_steps = max(total // 5, 5)
if args.save_steps is None:
    args.save_steps = 100
if debug:
    training_args.max_steps = 3
for name in names:
    training_args.run_name = name
args.targets = args.targets.split(",")
args.batch = args.batch // 2
model.config.use_cache = False
peft_config.r = 4
"""


def test_assignments_behind_the_parser() -> None:
    found = dict(assignments(ast.parse(PROGRAM), "train.py"))
    assert sorted(found) == ["batch", "eval_steps", "max_steps", "run_name", "save_steps"]
    assert found["eval_steps"].at == "train.py:3"
    assert [key for key, one in found.items() if one.is_conditional] == ["save_steps", "max_steps", "run_name"]
    assert [key for key, one in found.items() if one.where_unset] == ["save_steps"]


def test_a_part_of_a_value_leaves_the_value_unknown() -> None:
    text = 'if args.floor is not None:\n    args.lr_scheduler_kwargs["min_lr"] = args.floor\n'
    ((key, one),) = assignments(ast.parse(text), "train.py")
    assert (key, one.is_conditional, one.where_unset) == ("lr_scheduler_kwargs", True, False)
    ((_, always),) = assignments(ast.parse('args.lr_scheduler_kwargs["min_lr"] = 1e-6\n'), "train.py")
    assert always.is_conditional


BY_HAND = """
def enable(model, args):
    model.gradient_checkpointing_enable()
    {}
    args.gradient_checkpointing = False
"""


def test_a_key_that_a_function_does_itself_is_not_switched_off() -> None:
    assert not dict(assignments(ast.parse(BY_HAND.format("pass")), "train.py"))
    assert not dict(assignments(ast.parse(BY_HAND.format("if model.sees: pass")), "train.py"))
    other = BY_HAND.format("args.bf16 = False").replace("_enable()", "_disable()")
    assert sorted(dict(assignments(ast.parse(other), "train.py"))) == ["bf16", "gradient_checkpointing"]
