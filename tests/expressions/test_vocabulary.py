"""The vocabulary is the schema of the run: every field has a name, every choice is one that a run can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.architectures import resolve
from memlint.expressions.check import _SPECIAL
from memlint.expressions.choices import CHOICES
from memlint.expressions.derived_facts import READERS
from memlint.expressions.facts import Facts
from memlint.expressions.functions import FUNCTIONS
from memlint.expressions.vocabulary import FIELDS, Vocabulary, known_names
from memlint.hardware import find
from memlint.run import UNKNOWN, Hardware, Model, Run, get

# Fields whose values are no plain ones: rules read facts about them (readers.py) instead.
NOT_PLAIN = {"model.architecture", "method.extra_models", "method.value_model", "hardware.gpu", "origins", "readings"}
NOT_PLAIN |= {"hardware.context", "hardware.communication", "hardware.fragmentation"}
KINDS = {int: "int", float: "float", bool: "bool", str: "str", type(None): "null", tuple: "list", list: "list"}


def leaves(value: Any, prefix: str = "") -> list[str]:
    names = []
    for field in value._fields:
        inner = getattr(value, field)
        names.extend(leaves(inner, f"{prefix}{field}.") if hasattr(inner, "_fields") else [prefix + field])
    return names


def test_every_plain_field_of_a_run_is_a_name() -> None:
    plain = {name for name in leaves(Run("f", "p")) if not name.startswith("planning.")}  # for moves, not for rules
    assert plain - NOT_PLAIN == set(FIELDS)


PLAIN = Run("llamafactory", "p")


@pytest.mark.parametrize("name", sorted(name for name in FIELDS if get(PLAIN, name) is not UNKNOWN))
def test_a_default_is_of_its_type(name: str) -> None:
    value = get(PLAIN, name)
    entry = known_names()[name]

    kinds = {"version"} if "version" in entry.type.kinds else {KINDS[type(value)]}
    assert kinds <= entry.type.kinds | ({"int"} if "float" in entry.type.kinds else set())
    assert not entry.type.choices or value in entry.type.choices


def test_choices_are_for_names_that_exist() -> None:
    assert set(CHOICES) <= set(known_names())


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_reader_answers_for_any_run(name: str) -> None:
    architecture = resolve("Qwen/Qwen2.5-0.5B").architecture
    empty = Facts(Run("f", "p"))
    full = Facts(Run("f", "p", model=Model(architecture=architecture), hardware=Hardware(gpu=find("A100-80GB"))))
    kinds = known_names()[name].type.kinds

    assert READERS[name](empty) is UNKNOWN
    answer = READERS[name](full)
    assert answer is UNKNOWN or "version" in kinds or KINDS[type(answer)] in kinds | {"int"}


def test_facts_of_a_real_model() -> None:
    architecture = resolve("Qwen/Qwen2.5-0.5B").architecture
    facts = Facts(Run("f", "p", model=Model(architecture=architecture)))
    wanted = {"hidden_size": 896, "layers": 24, "heads": 14, "kv_heads": 2, "vocab_size": 151936, "family": "qwen2"}

    assert {name: READERS[f"model.{name}"](facts) for name in wanted} == wanted


def test_modules_that_an_adapter_can_target() -> None:
    phi, mixture = (
        Facts(Run("f", "p", model=Model(architecture=resolve(name).architecture)))
        for name in ("microsoft/Phi-3-mini-4k-instruct", "Qwen/Qwen3-30B-A3B")
    )

    assert READERS["model.modules"](phi)[:4] == ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    assert {"q_proj", "gate_proj", "lm_head"} <= set(READERS["model.modules"](mixture))
    assert READERS["model.linears"](phi) == (
        "qkv_proj",
        "o_proj",
        "gate_up_proj",
        "down_proj",
        "embed_tokens",
        "lm_head",
    )


def test_pixels_behind_a_token() -> None:
    crossed = "meta-llama/Llama-3.2-11B-Vision-Instruct"
    moving, fixed, text, crossing = (
        Facts(Run("f", "p", model=Model(architecture=resolve(name).architecture)))
        for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "google/gemma-3-4b-it", "Qwen/Qwen2.5-0.5B", crossed)
    )

    assert READERS["model.pixels_per_token"](moving) == 28 * 28
    assert READERS["model.pixels_per_token"](fixed) is UNKNOWN
    assert READERS["model.pixels_per_token"](text) is UNKNOWN
    assert READERS["model.pixels_per_token"](crossing) is UNKNOWN  # the text has one placeholder


def test_suggestions_name_things_that_exist() -> None:
    names = Vocabulary(("llamafactory",))

    assert names.suggest(("batch", "micro_batchsize")) == "batch.micro_batch_size"
    assert names.suggest(("max_positions",)) == "model.max_positions"
    assert names.suggest(("config", "lora_ranks")) == "config.lora_rank"
    assert names.suggest(("zzzzzz", "qqqqqq")) == ""


def test_the_page_for_rule_writers_names_every_function() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rules-format.md").read_text(encoding="utf-8")

    assert [name for name in (*FUNCTIONS, *_SPECIAL) if name not in page] == []
