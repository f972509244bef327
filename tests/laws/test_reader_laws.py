"""Errors about keys hold however a program reads its file.

What a framework's own code refuses is no mistake where a program of the repository reads the file by itself; where the
framework reads it, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from memlint.lint.analyse_file import uniform_analyser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from tests.readers import BY_FRAMEWORK, CONFIGS, OWN, Files, placed

PATH = "configs/run.yaml"


@cache
def engine() -> Engine:
    return Engine(tuple(shipped()))


def errors(config: Mapping[str, Any], files: Files, path: str = PATH) -> set[str]:
    """The rules of the errors on the config in this repository."""
    workspace = in_memory({path: yaml.safe_dump(dict(config), sort_keys=False), **placed(files, path)})
    analysis = uniform_analyser(engine(), {}, workspace=workspace).analyse(path, fixes=False)
    return {finding.rule for finding in analysis.findings if finding.severity == "error"}


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize("framework", CONFIGS)
def test_a_program_makes_what_it_likes_of_its_file(framework: str, way: str) -> None:
    path = PATH.replace("configs/", "own/") if way == "package data" else PATH
    assert errors(CONFIGS[framework], OWN[way], path) == set()


@pytest.mark.parametrize(("framework", "way"), [(name, way) for name, ways in BY_FRAMEWORK.items() for way in ways])
def test_what_a_framework_reads_is_judged(framework: str, way: str) -> None:
    assert errors(CONFIGS[framework], BY_FRAMEWORK[framework][way]) >= WRONG[framework]


# The rules of the mistakes in tests.readers.CONFIGS.
WRONG: Mapping[str, set[str]] = {
    "trainer": {"CFG002", "CFG003", "PRE011", "TRN001", "TRN019"},
    "trl": {"CFG003", "CFG008", "PEF025"},
    "llamafactory": {"CFG002", "CFG003", "LLF010", "LLF050"},
    "axolotl": {"AXO089", "CFG002"},
}
