"""Explicit YAML tags: standard ones convert as PyYAML does, others are problems, none is ever executed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from memlint.source import load

SAME = [
    *(
        "!!str 3",
        "!!int '3'",
        "!!int 0x10",
        "!!float 3",
        "!!float 4e-5",
        "!!float '1_000.5'",
        "!!bool yes",
        "!!bool Off",
    ),
    *("!!null ''", "!!null anything", "! 3", "! yes", "!!str null"),
]


def read(text: str) -> tuple[Any, list[str]]:
    document = load(f"a: {text}\n".encode(), "a.yaml")[0]
    return (document.value or {}).get("a"), [problem.code for problem in document.problems]


@pytest.mark.parametrize("text", SAME)
def test_a_standard_tag_gives_what_pyyaml_gives(text: str) -> None:
    expected = yaml.safe_load(f"a: {text}")["a"]
    value, problems = read(text)
    assert (value, type(value), problems) == (expected, type(expected), [])


@pytest.mark.parametrize("text", ["!!int x", "!!float one", "!!bool 3"])
def test_a_tag_that_does_not_fit_is_a_problem_and_the_text_stays(text: str) -> None:
    assert read(text) == (text.split()[1], ["bad-tag"])


@pytest.mark.parametrize("tag", ["!custom", "!!python/object/apply:os.system", "!<tag:example.com,2000:x>"])
def test_another_tag_is_a_problem_and_nothing_runs(tag: str) -> None:
    assert read(f"{tag} 'ls'") == ("ls", ["custom-tag"])
