"""Operations of the rule language: exact on integers, three-valued, UNKNOWN for what makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.expressions import values
from memlint.run import UNKNOWN

NUMBERS = st.one_of(st.integers(-(10**20), 10**20), st.floats(-1e6, 1e6))
ANYTHING = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.text(max_size=3), st.lists(st.integers(), max_size=3), st.just(UNKNOWN),
    st.just({"a": 1}), st.floats(), st.just(10**2_000),
)  # fmt: skip
ARITHMETIC = [values.add, values.subtract, values.multiply, values.divide, values.floor_divide, values.remainder]
COMPARISONS = [values.less, values.less_equal, values.greater, values.greater_equal]
OTHERS: list[Callable[[Any, Any], Any]] = [values.equal, values.unequal, values.contains]
TRUTH = [True, False, UNKNOWN]


@given(ANYTHING, ANYTHING)
def test_every_operation_answers_for_any_two_values(left: Any, right: Any) -> None:
    for operation in (*COMPARISONS, *OTHERS):
        assert operation(left, right) in TRUTH
    for operation in ARITHMETIC:
        found = operation(left, right)
        assert found is UNKNOWN or values.bounded(found) is found


@given(ANYTHING)
def test_what_is_unknown_on_one_side_is_unknown(value: Any) -> None:
    for operation in (*ARITHMETIC, *COMPARISONS, *OTHERS):
        assert operation(value, UNKNOWN) is UNKNOWN
        assert operation(UNKNOWN, value) is UNKNOWN


@pytest.mark.parametrize("value", [True, "3", None, [3], {}])
def test_only_numbers_are_reckoned_with(value: Any) -> None:
    assert values.number(value) is UNKNOWN
    for operation in (*ARITHMETIC, *COMPARISONS):
        assert operation(value, 1) is UNKNOWN


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [
        (values.divide, 6 * 10**30, 3, 2 * 10**30),
        (values.divide, 7, 2, 3.5),
        (values.divide, 1, 0, UNKNOWN),
        (values.floor_divide, -7, 2, -4),
        (values.floor_divide, 7, 0, UNKNOWN),
        (values.remainder, 7, 4, 3),
        (values.remainder, 7, 0, UNKNOWN),
        (values.multiply, 2**3_000, 2**3_000, UNKNOWN),
        (values.divide, 10**1_000, 3, UNKNOWN),
        (values.subtract, float("inf"), float("inf"), UNKNOWN),
        (values.add, float("inf"), 1, float("inf")),
    ],
)
def test_arithmetic_gives_a_value_of_its_type(
    operation: Callable[[Any, Any], Any], left: Any, right: Any, result: Any
) -> None:
    found = operation(left, right)
    assert found == result and type(found) is type(result)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("a", "a", True),
        ([1, "a"], [1, "a"], True),
        ([1], (1,), True),
        ([1], [1, 2], False),
        ([1], [True], False),
        ([[1]], [[1]], UNKNOWN),
        ({"a": 1}, {"a": 1}, UNKNOWN),
        ({"a": 1}, 3, False),
        ([0] * (values.MAX_ITEMS + 1), [0] * (values.MAX_ITEMS + 1), UNKNOWN),
    ],
)
def test_equality_is_symmetric(left: Any, right: Any, same: Any) -> None:
    assert values.equal(left, right) is same
    assert values.equal(right, left) is same
    assert values.unequal(left, right) is values.negate(same)


@pytest.mark.parametrize(
    ("whole", "part", "has"),
    [
        ("q_proj,v_proj", "v_proj", True),
        ("q_proj", 1, UNKNOWN),
        ([1, 2], 2.0, True),
        ([1, 2], True, False),
        ([1, UNKNOWN], 2, UNKNOWN),
        ([2, UNKNOWN], 2, True),
        ([], 1, False),
        ({"a": 1}, "a", UNKNOWN),
        ([0] * (values.MAX_ITEMS + 1), 0, UNKNOWN),
    ],
)
def test_what_a_collection_or_a_text_contains(whole: Any, part: Any, has: Any) -> None:
    assert values.contains(whole, part) is has


@given(st.lists(st.sampled_from(TRUTH), max_size=5))
def test_and_is_or_of_the_opposites(found: list[Any]) -> None:
    assert values.all_of(found) is values.negate(values.any_of(values.negate(value) for value in found))


@pytest.mark.parametrize(
    ("found", "any_of", "all_of"),
    [([], False, True), ([UNKNOWN, True], True, UNKNOWN), ([UNKNOWN, False], UNKNOWN, False), ([3], UNKNOWN, UNKNOWN)],
)
def test_kleenes_logic(found: list[Any], any_of: Any, all_of: Any) -> None:
    assert (values.any_of(found), values.all_of(found)) == (any_of, all_of)


@given(st.integers())
def test_no_number_is_a_truth_value(number: int) -> None:
    assert values.negate(number) is UNKNOWN
    assert values.negative(number) == -number
    assert values.negative(True) is UNKNOWN


def test_versions_have_one_length() -> None:
    assert values.version_order((5, 23), (5, 23, 1)) == ((5, 23, 0), (5, 23, 1))
    assert values.version_order("5.23", (5, 23)) == (UNKNOWN, UNKNOWN)
