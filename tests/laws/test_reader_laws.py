"""Errors about keys hold however a program reads its file.

What a framework's own code refuses is no mistake where a program of the repository reads the file by itself; where the
framework reads it, nothing is lost.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.own_reader import rule_applies
from memlint.lint.analyse_file import uniform_analyser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.examples import Example, examples
from memlint.ruleset.folder import read_document, rule_files
from memlint.ruleset.shipped import shipped
from memlint.shipped_data import folder
from tests.readers import BY_FRAMEWORK, CONFIGS, FORKS, MADE, OWN, REFUSED, SET, Files, Refused, placed

PATH = "configs/run.yaml"
JSON_PATH = "configs/run.json"


@cache
def engine() -> Engine:
    return Engine(tuple(shipped()))


def errors(
    config: Mapping[str, Any], files: Files, path: str = PATH, severities: tuple[str, ...] = ("error",)
) -> set[str]:
    """The rules of the errors on the config in this repository, or of findings of other `severities`."""
    text = json.dumps(config, indent=1) if path == JSON_PATH else yaml.safe_dump(dict(config), sort_keys=False)
    return said(text, files, path, severities)


def said(text: str, files: Files, path: str, severities: tuple[str, ...]) -> set[str]:
    workspace = in_memory({path: text, **placed(files, path)})
    analysis = uniform_analyser(engine(), {}, workspace=workspace).analyse(path, fixes=False)
    here = (finding for finding in analysis.findings if finding.location.path == path)
    return {finding.rule for finding in here if finding.severity in severities}


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize("framework", CONFIGS)
def test_a_program_makes_what_it_likes_of_its_file(framework: str, way: str) -> None:
    path = PATH.replace("configs/", "own/") if way == "package data" else PATH
    assert errors(CONFIGS[framework], OWN[way], path) == set()


@cache
def mistakes() -> tuple[Example, ...]:
    """What rules about arguments fail, by their own examples: files of frameworks that have a command of their own."""
    rules = folder("rules")
    documents = (read_document(f"{rules}/{name}", name) for name in rule_files(rules))
    found = (example for document in documents for example in examples(document))
    return tuple(one for one in found if one.expected == "fails" and one.format in _FORMATS and not _is_json(one))


_FORMATS = ("trainer", "llamafactory", "axolotl")


def _is_json(example: Example) -> bool:
    return example.file.endswith(".json")


@given(st.deferred(lambda: st.sampled_from(mistakes())), st.sampled_from(sorted(OWN)))
@settings(max_examples=40, deadline=None)
def test_no_rule_judges_what_a_program_reads_by_itself(example: Example, way: str) -> None:
    path = PATH.replace("configs/", "own/") if way == "package data" else PATH
    found = said(example.text, {**example.fields.get("files", {}), **OWN[way]}, path, ("error", "warning"))
    assert all(map(rule_applies, found)), (example.rule, way)


@pytest.mark.parametrize(("framework", "way"), [(name, way) for name, ways in BY_FRAMEWORK.items() for way in ways])
def test_what_a_framework_reads_is_judged(framework: str, way: str) -> None:
    assert errors(CONFIGS[framework], BY_FRAMEWORK[framework][way]) >= WRONG[framework]


def with_value(one: Refused) -> dict[str, Any]:
    """The config with the value that the framework refuses."""
    config = copy.deepcopy(dict(one.config))
    section = config
    for key in one.key[:-1]:
        section = section[key]
    section[one.key[-1]] = one.value
    return config


def worded(files: Files, framework: str) -> Files:
    """The files with this framework's words."""
    one, kind = REFUSED[framework], "json" if framework == "deepspeed" else "yaml"
    words = {"KEY": one.key[-1], "VALUE": one.value, "HAND_ON": one.hand_on, "MADE": "made.json"}
    safe = "" if kind == "json" else "safe_"
    words |= {"LOADS": f"{kind}.{safe}load{'s' if kind == 'json' else ''}", "LOAD": f"{kind}.{safe}load"}
    words |= {"DUMP": f"{kind}.{safe}dump"}
    found = {**one.files, **files}
    for word, meant in words.items():
        found = {name: text.replace(word, meant) for name, text in found.items()}
    return found


@pytest.mark.parametrize("framework", REFUSED)
@pytest.mark.parametrize("way", ["", *SET])
def test_what_a_program_sets_is_not_held_against_the_file(framework: str, way: str) -> None:
    files = SET[way] if way else {"run.sh": "HAND_ON CONFIG\n"}
    path = JSON_PATH if framework == "deepspeed" else PATH
    found = errors(with_value(REFUSED[framework]), worded(files, framework), path)
    assert bool(found) is (way == "")


@pytest.mark.parametrize("framework", ["trainer", "trl", "axolotl"])
@pytest.mark.parametrize("way", ["", *MADE])
def test_a_file_that_is_made_is_not_missed(framework: str, way: str) -> None:
    config = {**REFUSED[framework].config, "deepspeed": "configs/made.json"}
    found = errors(config, worded(MADE[way] if way else {"run.sh": "HAND_ON CONFIG\n"}, framework))
    assert ("REF001" in found) is (way == "")


@pytest.mark.parametrize("way", FORKS)
def test_what_a_fork_declares_or_asks_for_is_its_own(way: str) -> None:
    fork = FORKS[way]
    config = {**REFUSED[fork.framework].config, fork.key: fork.value}
    severities = ("error", "warning")
    assert errors(config, {}, severities=severities) > (found := errors(config, fork.files, severities=severities))
    assert not any(rule.startswith(("CFG", "TRN019", "AXO")) for rule in found)


# The rules of the mistakes in tests.readers.CONFIGS.
WRONG: Mapping[str, set[str]] = {
    "trainer": {"CFG002", "CFG003", "PRE011", "REF001", "TRN001", "TRN019"},
    "trl": {"CFG003", "CFG008", "PEF025"},
    "llamafactory": {"CFG002", "CFG003", "LLF010", "LLF050"},
    "axolotl": {"AXO089", "CFG002"},
}
