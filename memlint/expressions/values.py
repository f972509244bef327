"""Operations on the values of the rule language. They never raise and are exact on integers.

UNKNOWN is a value that cannot be known; an absent key counts as UNKNOWN, too. `and`, `or` and `not` follow Kleene's
three-valued logic; every other operation on UNKNOWN is UNKNOWN. So is an operation on values of the wrong type, which
the schema check reports.
"""

from __future__ import annotations

from typing import Any

from memlint.run import UNKNOWN

MAX_ITEMS = 2_000  # of a list that an expression looks into
_MAX_BITS = 4_096
_MAX_COMPARED = 20_000  # characters


def number(value: Any) -> Any:
    """`value` if it is a number (true and false are not), else UNKNOWN."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else UNKNOWN


def bounded(value: Any) -> Any:
    """`value`; UNKNOWN for an integer of more than _MAX_BITS bits, and for NaN and infinity."""
    if isinstance(value, float):
        return value if value == value else UNKNOWN
    return value if value.bit_length() <= _MAX_BITS else UNKNOWN


def add(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a + b)


def subtract(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a - b)


def multiply(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a * b)


def divide(left: Any, right: Any) -> Any:
    """True division; exact where the quotient is a whole number, so that 6 / 3 == 2 at any size."""
    return _arithmetic(left, right, _quotient)


def floor_divide(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a // b)


def remainder(left: Any, right: Any) -> Any:
    return _arithmetic(left, right, lambda a, b: a % b)


def _quotient(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _arithmetic(left: Any, right: Any, operation: Any) -> Any:
    if number(left) is UNKNOWN or number(right) is UNKNOWN:
        return UNKNOWN
    if bounded(left) is UNKNOWN or bounded(right) is UNKNOWN:
        return UNKNOWN
    try:
        return bounded(operation(left, right))
    except (ArithmeticError, ValueError):
        return UNKNOWN


def negative(value: Any) -> Any:
    return UNKNOWN if number(value) is UNKNOWN else -value


def equal(left: Any, right: Any) -> Any:
    """Equality of scalars and flat lists; `1 == 1.0`, but `1 != true`. Mappings are not compared."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return _equal_lists(left, right)
    if isinstance(left, (dict, list, tuple)) or isinstance(right, (dict, list, tuple)):
        return False if type(left) is not type(right) else UNKNOWN
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _equal_lists(left: Any, right: Any) -> Any:
    if len(left) != len(right):
        return False
    if len(left) > MAX_ITEMS:
        return UNKNOWN
    for one, other in zip(left, right):
        if isinstance(one, (dict, list, tuple)) or isinstance(other, (dict, list, tuple)):
            return UNKNOWN
        if not equal(one, other):
            return False
    return True


def unequal(left: Any, right: Any) -> Any:
    return negate(equal(left, right))


def negate(value: Any) -> Any:
    return not value if isinstance(value, bool) else UNKNOWN


def less(left: Any, right: Any) -> Any:
    if number(left) is UNKNOWN or number(right) is UNKNOWN:
        return UNKNOWN
    return left < right


def less_equal(left: Any, right: Any) -> Any:
    if number(left) is UNKNOWN or number(right) is UNKNOWN:
        return UNKNOWN
    return left <= right


def greater(left: Any, right: Any) -> Any:
    return less(right, left)


def greater_equal(left: Any, right: Any) -> Any:
    return less_equal(right, left)


def contains(whole: Any, part: Any) -> Any:
    """Whether a list has the item, or a text the part. UNKNOWN if it is not found but an item is UNKNOWN."""
    if whole is UNKNOWN or part is UNKNOWN:
        return UNKNOWN
    if isinstance(whole, str):
        return part in whole if isinstance(part, str) and len(whole) <= _MAX_COMPARED else UNKNOWN
    if not isinstance(whole, (list, tuple)) or len(whole) > MAX_ITEMS:
        return UNKNOWN
    return any_of(equal(item, part) for item in whole)


def any_of(values: Any) -> Any:
    """Kleene's `or` over all values."""
    result: Any = False
    for value in values:
        if value is True:
            return True
        if value is not False:
            result = UNKNOWN
    return result


def all_of(values: Any) -> Any:
    """Kleene's `and` over all values."""
    result: Any = True
    for value in values:
        if value is False:
            return False
        if value is not True:
            result = UNKNOWN
    return result


def version_order(left: Any, right: Any) -> tuple[Any, Any]:
    """Two versions as tuples of one length: 5.23 counts as 5.23.0. (UNKNOWN, UNKNOWN) if either is none."""
    if not isinstance(left, tuple) or not isinstance(right, tuple):
        return UNKNOWN, UNKNOWN
    width = max(len(left), len(right))
    return left + (0,) * (width - len(left)), right + (0,) * (width - len(right))
