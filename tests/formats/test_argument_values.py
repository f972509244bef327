"""Values as HfArgumentParser takes them from the words of a command."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.argument_values import refused_value

WHOLE = {"type": ["integer", "null"]}
SWITCH = {"type": ["boolean", "null"]}
WORDS = {"anyOf": [{"enum": ["left", "right", None]}, {"type": ["null"]}]}
NUMBERS = {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": ["null"]}]}


@pytest.mark.parametrize(
    ("value", "schema", "wanted"),
    [
        (8, WHOLE, ""),
        ("8", WHOLE, ""),
        (1.5, WHOLE, "a whole number"),
        ("many", WHOLE, "a whole number"),
        ("${SIZE}", WHOLE, ""),
        ("<your-size>", WHOLE, ""),
        (None, WHOLE, ""),
        (True, SWITCH, ""),
        ("yes", SWITCH, ""),
        (0, SWITCH, ""),
        (2, SWITCH, "true or false"),
        ("maybe", SWITCH, "true or false"),
        ("left", WORDS, ""),
        ("middle", WORDS, "`left`, `right`"),
        ([0.5, 0.5], NUMBERS, ""),
        (1, NUMBERS, ""),
        ([0.5, "half"], NUMBERS, "a number"),
        ("anything", {}, ""),
        ("anything", {"type": ["null", "string"]}, ""),
        (4, {"anyOf": [{"enum": [4, 8]}, {"type": ["null"]}]}, ""),
        ("4bit", {"anyOf": [{"enum": [4, 8]}, {"type": ["null"]}]}, "`4`, `8`"),
    ],
)
def test_what_the_parser_refuses(value: Any, schema: dict[str, Any], wanted: str) -> None:
    assert refused_value(value, schema) == wanted
