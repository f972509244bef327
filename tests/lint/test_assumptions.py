"""The list of what an estimate took for granted, and the words for where each value came from."""

from __future__ import annotations

import pytest

from memlint.lint.assumptions import assumptions, describe_origin, versions
from memlint.run import UNKNOWN, Origin, Stack
from tests.memory.runs import run


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (Origin("file", "a.yaml", 14, 13), "a.yaml:14:13"),
        (Origin("companion", "ds.json"), "ds.json"),
        (Origin("setting", "memlint.yaml", 1, 2, detail="profile ci"), "memlint.yaml:1:2 (profile ci)"),
        (Origin("default", detail="trl 1.16"), "default of trl 1.16"),
        (Origin("inferred", detail="from the name"), "inferred: from the name"),
        (Origin("catalog", detail="catalog: Qwen/Qwen3-8B"), "catalog: Qwen/Qwen3-8B"),
        (Origin("command_line"), "command line"),
    ],
)
def test_an_origin_in_words(origin: Origin, words: str) -> None:
    assert describe_origin(origin) == words


def test_values_are_listed_by_field_unless_they_are_unknown_or_fixed_in_code() -> None:
    origins = {
        "sequence.length": Origin("default", detail="trl 1.16"),
        "batch.micro_batch_size": Origin("file", "a.yaml", 3, 5),
        "loss.kind": Origin("framework", detail="trainer.py"),
        "optimizer.name": Origin("unknown", detail="a template"),
        "method.rank": Origin("file", "a.yaml", 4, 1),
        "model.architecture": Origin("catalog", detail="catalog: tiny"),
        "stack.transformers": Origin("setting", "memlint.yaml", 1, 1),
    }
    listed = assumptions(run(method__rank=UNKNOWN, stack__transformers=(4, 57))._replace(origins=origins))

    assert [(one.field, one.value, one.origin) for one in listed] == [
        ("batch.micro_batch_size", 2, "a.yaml:3:5"),
        ("model.architecture", "LlamaForCausalLM", "catalog: tiny"),
        ("sequence.length", 256, "default of trl 1.16"),
        ("stack.transformers", "4.57", "memlint.yaml:1:1"),
    ]


def test_unsloth_is_an_assumption_of_its_own() -> None:
    (found,) = assumptions(run(stack__use_unsloth=True))
    assert (found.field, found.value) == ("stack.unsloth", "any release")
    (found,) = assumptions(
        run(stack__use_unsloth=True, stack__unsloth=(2026, 3))._replace(
            origins={"stack.unsloth": Origin("setting", "memlint.yaml", 2, 1)}
        )
    )
    assert found.value == "2026.3" and found.origin.startswith("memlint.yaml:2:1; ")


def test_versions_that_somebody_stated_are_listed_and_defaults_are_not() -> None:
    origins = {
        "stack.transformers": Origin("setting", "memlint.yaml", 2, 1),
        "stack.trl": Origin("default", detail="newest"),
        "stack.framework_version": Origin("inferred", "a.yaml", 7, 1, detail="`cpu_infer` is new in it"),
        "stack.peft": Origin("command_line"),
    }
    stack = Stack(
        framework="llamafactory", framework_version=(0, 9, 4), transformers=(4, 57), trl=(0, 28), peft=(0, 17)
    )

    assert versions(run(stack=stack)._replace(origins=origins)) == (
        ("llamafactory", "0.9.4", "`cpu_infer` is new in it, a.yaml:7"),
        ("transformers", "4.57", "memlint.yaml:2"),
        ("peft", "0.17", "command line"),
    )
