"""Flags below the end of a launch: which are lost, why, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.source.document import Problem

LAUNCH = """\
torchrun --nproc_per_node 8 train.py --learning_rate 1e-5 --num_train_epochs 1 --output_dir out \\
  --model_name_or_path Qwen/Qwen2.5-7B \\
  --bf16 True"""
REST = "  --per_device_train_batch_size 4 \\\n  --gradient_checkpointing True\n"


def problems(script: str) -> list[Problem]:
    (document,) = in_memory({"go.sh": script}).documents("go.sh")
    return list(document.problems)


@pytest.mark.parametrize(
    ("between", "line", "why"),
    [
        (" \\ \n", 4, "a blank follows the backslash of line 3"),
        (" \\\t\n", 4, "a blank follows the backslash of line 3"),
        ("\n", 4, "line 3 does not end with a backslash"),
        ("\n\n", 5, "line 3 does not end with a backslash"),
        ("\n# --tf32 True\n", 5, "line 3 does not end with a backslash"),
        (" \\\n  # --tf32 True \\\n", 5, "the comment below line 3 ends the command"),
        (" \\ # 16 fit\n", 4, "a comment follows the backslash of line 3"),
        (" \\ #16 fit\n", 4, "a comment follows the backslash of line 3"),
        (" # 16 fit \\\n", 4, "the comment in line 3 ends the command"),
    ],
)
def test_flags_below_the_commands_end_are_lost(between: str, line: int, why: str) -> None:
    (problem,) = problems(LAUNCH + between + REST)

    assert (problem.severity, problem.span.line) == ("warning", line)
    assert problem.message.startswith("`--per_device_train_batch_size` and what stands below it are not handed on: ")
    assert why in problem.message


@pytest.mark.parametrize(
    "rest", ["", " \\\n" + REST, "\n\necho --done\n", " \\\n  # --tf32 True\n\nls --all\n", " | tee --append log\n"]
)
def test_a_command_that_goes_on_or_ends_loses_nothing(rest: str) -> None:
    assert problems(LAUNCH + rest) == []


def test_flags_with_values_at_the_start_of_the_rest_are_lost_too() -> None:
    rest = "  --per_device_train_batch_size=4 \\\n  --output_dir='o' \\\n  --gradient_checkpointing \\\n  --use_peft\n"
    (problem,) = problems(f"{LAUNCH} \\ #16 fit\n{rest}")

    assert problem.message.startswith("`--per_device_train_batch_size` and what stands below it are not handed on: ")
    assert (problem.span.line, problem.span.column) == (4, 3)


def test_it_is_said_once_as_a_warning() -> None:
    workspace = in_memory({"go.sh": f"{LAUNCH} \\ \n{REST}"})
    found = Engine(tuple(shipped())).analyse(workspace.documents("go.sh")[0], workspace.context()).findings
    assert [(one.rule, one.severity) for one in found if one.rule.startswith("SRC")] == [("SRC007", "warning")]


def test_a_command_that_ends_too_early_is_no_run_with_a_figure() -> None:
    def runs(between: str) -> int:
        workspace = in_memory({"go.sh": f"{LAUNCH}{between}{REST}"})
        document = workspace.documents("go.sh")[0]
        return len(Engine(tuple(shipped())).analyse(document, workspace.context()).runs)

    assert (runs(" \\\n"), runs(" \\ \n"), runs("\n")) == (1, 0, 0)


@given(st.text(" \t\\\n#-ax", max_size=12))
@example("\n \\--")
def test_the_problem_lies_at_a_flag_whatever_stands_between(between: str) -> None:
    script = LAUNCH + between + REST
    for document in in_memory({"go.sh": script}).documents("go.sh"):
        for problem in document.problems:
            assert script[problem.span.start : problem.span.end].startswith("-")
