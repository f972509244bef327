"""The functions that rules may call: what each gives, and that none raises on what its parameters allow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.expressions.functions import FUNCTIONS
from memlint.expressions.values import MAX_ITEMS
from memlint.run import UNKNOWN

NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


def call(name: str, *arguments: Any) -> Any:
    return FUNCTIONS[name].call(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("gib", (61.4 * 2**30,), "61.4 GiB"),
        ("gib", (2**30, 9), "1.000000 GiB"),
        ("mib", (953 * 2**20,), "953 MiB"),
        ("percent", (0.43,), "43 %"),
        ("percent", (3, 4), "75 %"),
        ("percent", (3, 0), UNKNOWN),
        ("count", (8_030_261_248,), "8.03 billion"),
        ("count", (152_064,), "152,064"),
        ("count", (999_999_999,), "1 billion"),
        ("count", (-2_000_000,), "-2 million"),
        ("count", (0.5,), "0.5"),
        ("round", (2.567, 2), 2.57),
        ("round", (2.5,), 2),
        ("int", (-2.7,), -2),
        ("number", ("1e-5",), 1e-5),
        ("number", ("12",), 12),
        ("number", ("1.5x",), UNKNOWN),
        ("number", ("nan",), UNKNOWN),
        ("number", (True,), UNKNOWN),
        ("number", ("1" * 41,), UNKNOWN),
        ("min", (3, 1, 2), 1),
        ("max", ([3, 1, 2],), 3),
        ("max", ([],), UNKNOWN),
        ("max", ([1, "2"],), UNKNOWN),
        ("max", ([0] * (MAX_ITEMS + 1),), UNKNOWN),
        ("first", ([7, 8],), 7),
        ("first", ([],), UNKNOWN),
        ("lower", ("BF16",), "bf16"),
        ("basename", ("models\\Qwen2.5-7B/",), "Qwen2.5-7B"),
        ("split", ("q,v", ","), ["q", "v"]),
        ("split", ("q,v", ""), UNKNOWN),
        ("split", ("," * MAX_ITEMS, ","), UNKNOWN),
        ("strip", (" a ",), "a"),
        ("join", (["a", 1],), "a, 1"),
        ("join", (list(range(21)), "-"), "-".join(map(str, range(20))) + "-..."),
        ("join", ([[1]],), UNKNOWN),
        ("is_regex", ("layers.[0-9]+",), True),
        ("is_regex", ("layers.[",), False),
        ("is_regex", ("a" * 1_001,), UNKNOWN),
        ("is_number", (True,), False),
        ("is_map", ({},), True),
    ],
)
def test_a_function_gives_a_value_of_its_type(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    found = call(name, *arguments)
    assert found == result and type(found) is type(result)


@given(NUMBERS)
def test_every_number_has_words(value: float) -> None:
    for name in ("gib", "mib", "percent", "count"):
        try:
            words = call(name, value)
        except OverflowError:
            assert isinstance(value, int) and abs(value) > 10**300
        else:
            assert isinstance(words, str) and words


def test_every_function_says_what_it_gives() -> None:
    for name, function in FUNCTIONS.items():
        assert function.help, name
        assert function.optional < len(function.parameters) or not function.optional, name
