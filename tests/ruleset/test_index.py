"""The index leaves no rule out that has something to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.expressions.facts import Facts
from memlint.expressions.language import compile_expression
from memlint.expressions.vocabulary import Vocabulary
from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset import examples, snapshot
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.folder import read_document, rule_files
from memlint.ruleset.necessary import needs
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Body, Compiled, Rule
from memlint.ruleset.rule_file import parse_rule
from memlint.ruleset.rule_set import RuleSet, listed
from memlint.ruleset.shipped import shipped
from memlint.ruleset.sources import from_files, snapshot_text
from memlint.run import UNKNOWN, Run, replace
from memlint.shipped_data import folder
from memlint.source import load

RULES = Path(folder("rules"))
NAMES = Vocabulary(("llamafactory",))
ATOMS = (
    *("parallelism.engine == 'fsdp'", "batch.micro_batch_size in [1, 4]", "sequence.packing", "not sequence.packing"),
    *("has(config.lora_rank)", "given(config.optim)", "enabled(config.bf16)", "config.lora_rank > 4", "config.fp16"),
    *("is_string(config.optim)", "config.optim in ['sgd', 'adamw_torch']", "default(config.lora_rank, 8) > 4"),
    *("batch.micro_batch_size > 1", "batch.micro_batch_size != 1", "sequence.packing != true", "config.fp16 != true"),
    *("truthy(config.fp16)", "len(truthy_keys(config.fp16, config.bf16)) > 1", "truthy(config.lora_rank) == false"),
    *("config.optim == 'sgd'", "config.optim != 'sgd'", "config.lora_rank == 8", "parallelism.engine != 'single'"),
    *("default(config.lora_rank, 8) == 4", "default(config.optim, 'sgd') != default(config.bf16, 'sgd')"),
    *("(config.lora_rank if truthy(config.fp16) else 2) > 4", "not (default(config.lora_rank, 8) == 8)"),
    *("known(batch.micro_batch_size)", "config.lora_rank * 2 == 16", "lower(config.optim) == 'sgd'", "1 < 2"),
)
KEYS = {
    "lora_rank": st.sampled_from([None, 4, 8, 16, "8", True]),
    "optim": st.sampled_from([None, "sgd", "SGD", "adamw_torch", 3, "${OPTIM}"]),
    "bf16": st.booleans(),
    "fp16": st.booleans(),
}


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: f"(({pair[0]}) and ({pair[1]}))"),
            st.tuples(inner, inner).map(lambda pair: f"(({pair[0]}) or ({pair[1]}))"),
            inner.map(lambda text: f"(not ({text}))"),
        ),
        max_leaves=6,
    )


def runs() -> st.SearchStrategy[Run]:
    return st.fixed_dictionaries(
        {
            "parallelism.engine": st.sampled_from(["fsdp", "ddp", UNKNOWN]),
            "batch.micro_batch_size": st.sampled_from([1, 2, 4, UNKNOWN]),
            "sequence.packing": st.sampled_from([True, False, UNKNOWN]),
        }
    ).map(lambda values: replace(Run("llamafactory", "train.yaml"), values))


def rule(text: str) -> Rule:
    body = Body(Compiled(compile_expression(text, NAMES).form))
    return Rule("XXX001", "x/x", "error", (), lambda: body, needs(body))


@settings(deadline=None)
@given(expressions(), runs(), st.fixed_dictionaries({}, optional=KEYS))
def test_a_rule_that_is_true_is_a_candidate(text: str, run: Run, keys: dict[str, Any]) -> None:
    one, facts = rule(text), Facts(run, None, {"config": keys})

    when = one.body().when
    assert when is not None
    assert when(facts) is not True or listed([one]).candidates(facts, "llamafactory") == [one]


@pytest.mark.parametrize("name", rule_files(str(RULES)))
def test_failing_examples_reach_their_rule(name: str) -> None:
    document = read_document(str(RULES / name), name)
    one = parse_rule(document)
    rules = listed([one])

    reached = []
    for example in examples.examples(document):
        analysis = examples.analyse_text(one, example, example.text)
        for found in analysis.found:
            if found.finding.rule == one.id and analysis.parsed:
                run, estimate = analysis.runs[found.run], analysis.estimates[found.run]
                facts = Facts(run, estimate, analysis.parsed.raw)
                reached.append(rules.candidates(facts, analysis.parsed.format) == [one])
    assert reached
    assert all(reached)


def test_candidates_keep_the_order_of_rules() -> None:
    rules = shipped()
    facts = Facts(Run("llamafactory", "train.yaml"), None, {"config": {"flash_attn": "fa2"}})
    found = rules.candidates(facts, "llamafactory")

    assert [one.id for one in found] == sorted(one.id for one in found)
    assert len(found) < len(tuple(rules)) / 2


def test_a_python_rule_is_always_asked() -> None:
    assert all(one.needs is None for one in shipped() if one.check is not None)


def example_configs() -> dict[str, list[dict[str, Any]]]:
    """By format the configs of the rules' own examples, as mappings."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in rule_files(str(RULES)):
        for example in examples.examples(read_document(str(RULES / name), name)):
            value = load(example.text.encode(), "config.yaml")[0].value
            if isinstance(value, dict):
                found.setdefault(example.format, []).append(value)
    return found


CONFIGS = example_configs()
VALUES = (None, True, False, 0, 1, 8, 1e-5, "8", "auto", "none", "", "${VALUE}", [], ["none"], {}, {"type": "none"})


@st.composite
def mixed_configs(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A format, and what a few examples of it say together, some keys with another value, some left out."""
    name = draw(st.sampled_from(sorted(CONFIGS)))
    mixed: dict[str, Any] = {}
    for config in draw(st.lists(st.sampled_from(CONFIGS[name]), min_size=1, max_size=6)):
        mixed |= config
    keys = sorted(mixed, key=str)
    for key in draw(st.lists(st.sampled_from(keys), max_size=4)) if keys else ():
        mixed[key] = draw(st.sampled_from(VALUES))
    for key in draw(st.lists(st.sampled_from(keys), max_size=4)) if keys else ():
        mixed.pop(key, None)
    return name, mixed


def as_shipped() -> RuleSet:
    """The shipped rules as an installation reads them: their indices were made when it was built."""
    found = snapshot.read(snapshot_text(stamped=False).encode(), {one.FIELDS["id"]: one.check for one in MODULES})
    assert found is not None
    return found[0]


INDEXED = Engine(as_shipped())
ALL_ASKED = Engine(rule._replace(needs=None) for rule in from_files(str(RULES)))


def analysed(engine: Engine, name: str, config: dict[str, Any], gpu: str) -> Analysis:
    workspace = in_memory({"config.json": json.dumps(config)})
    context = workspace.context(gpu=find(gpu) if gpu else None, gpus=2 if gpu else UNKNOWN)
    return engine.analyse(workspace.documents("config.json")[0], context, name)


@settings(deadline=None)  # the first of a format reads its schema
@given(mixed_configs(), st.sampled_from(["", "RTX4090", "H100-80GB"]))
def test_asking_every_rule_finds_no_more(case: tuple[str, dict[str, Any]], gpu: str) -> None:
    name, config = case

    assert analysed(INDEXED, name, config, gpu).found == analysed(ALL_ASKED, name, config, gpu).found
