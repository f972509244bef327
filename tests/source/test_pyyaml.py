"""PyYAML's parser in Python works as before, though its patterns are compiled later."""

from __future__ import annotations

import re
from datetime import date

import pytest

from memlint.source.pyyaml import yaml


def test_re_compiles_as_before() -> None:
    assert isinstance(re.compile("a"), re.Pattern)


def test_the_parser_in_python_reads_each_kind_of_scalar() -> None:
    text = "{a: 1, b: 2.5, c: 2026-01-31, d: on, e: ~, f: text, g: 0x1f}"

    found = yaml.load(text, yaml.SafeLoader)

    assert found == {"a": 1, "b": 2.5, "c": date(2026, 1, 31), "d": True, "e": None, "f": "text", "g": 31}


def test_the_parser_in_python_refuses_a_control_character() -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.load("a: \x07", yaml.SafeLoader)
