"""The functions of the rule language: names, parameter types, results.

None raises: a result that cannot be computed is UNKNOWN. With an UNKNOWN argument the result is UNKNOWN without a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.kinds import ALL, ANY, BOOL, INT, NUMBER, STR, Kinds, Type, list_of
from memlint.expressions.values import MAX_ITEMS, bounded, contains, number
from memlint.run import UNKNOWN

_NUM = NUMBER.kinds
_STR = STR.kinds
_INT = INT.kinds
_LIST = frozenset({"list"})
_SIZED = frozenset({"list", "str", "map"})


class Function(NamedTuple):
    """A function. The last `optional` parameters may be left out. `variadic`: the last parameter may be repeated."""

    parameters: tuple[Kinds, ...]
    result: Type
    call: Callable[..., Any]
    optional: int = 0
    variadic: bool = False
    help: str = ""


def _round(value: float, digits: int = 0) -> Any:
    return round(value, max(-9, min(9, digits))) if digits else round(value)


def _integer(value: float) -> Any:
    return int(value)


def gib(value: float, digits: int = 1) -> str:
    return f"{value / 2**30:,.{max(0, min(6, digits))}f} GiB"


def _mib(value: float, digits: int = 0) -> str:
    return f"{value / 2**20:,.{max(0, min(6, digits))}f} MiB"


def _percent(share: float, whole: float = 1) -> Any:
    return UNKNOWN if whole == 0 else f"{100 * share / whole:,.0f} %"


_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def _count(value: float) -> str:
    """A large number as people say it: 8.03 billion, 152,064."""
    if abs(value) < 10**6:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"
    # 999,999,999 is rounded before its word is chosen: a billion, and not a thousand million.
    rounded = float(f"{value:.3g}")
    limit, word = next(scale for scale in _SCALES if abs(rounded) >= scale[0])
    return f"{rounded / limit:.3g} {word}"


def _join(values: Any, separator: str = ", ") -> Any:
    if not all(isinstance(item, (str, int, float)) for item in values[:20]):
        return UNKNOWN
    return separator.join([*map(str, values[:20]), *(["..."] if len(values) > 20 else [])])


def _number(value: Any) -> Any:
    """`value` as a number, also if it is text that YAML 1.1 does not read as one ("1e-5"). Anything else is UNKNOWN."""
    if isinstance(value, str) and len(value) <= 40:
        try:
            return bounded(float(value) if any(mark in value for mark in ".eEnNiI") else int(value))
        except ValueError:
            return UNKNOWN
    return number(value)


def _lower(text: str) -> Any:
    return text.lower() if len(text) <= 10_000 else UNKNOWN


def _basename(text: str) -> str:
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2][:1_000]


def _extreme(pick: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        items = values[0] if len(values) == 1 and isinstance(values[0], (list, tuple)) else values
        if not items or len(items) > MAX_ITEMS or any(number(item) is UNKNOWN for item in items):
            return UNKNOWN
        return pick(items)

    return call


_LONGEST_PATTERN = 1_000


def _is_regex(text: str) -> Any:
    if len(text) > _LONGEST_PATTERN:
        return UNKNOWN
    try:
        return bool(re.compile(text))
    except (re.error, RecursionError, OverflowError):
        return False


FUNCTIONS: dict[str, Function] = {
    "len": Function((_SIZED,), INT, len, help="items of a list, characters of a text, keys of a mapping"),
    "first": Function((_LIST,), ANY, lambda items: items[0] if items else UNKNOWN, help="the first item of a list"),
    "abs": Function((_NUM,), NUMBER, abs, help="the value without its sign"),
    "round": Function((_NUM, _INT), NUMBER, _round, optional=1, help="rounded, to digits after the point"),
    "int": Function((_NUM,), INT, _integer, help="the whole part"),
    "number": Function((ALL,), NUMBER, _number, help='a number, also from text such as "1e-5"'),
    "min": Function((_NUM | _LIST,), NUMBER, _extreme(min), variadic=True, help="the least of numbers or of a list"),
    "max": Function((_NUM | _LIST,), NUMBER, _extreme(max), variadic=True, help="the greatest of numbers or of a list"),
    "startswith": Function((_STR, _STR), BOOL, str.startswith, help="whether a text begins with another"),
    "endswith": Function((_STR, _STR), BOOL, str.endswith, help="whether a text ends with another"),
    "contains": Function((_STR | _LIST, ALL), BOOL, contains, help="whether a text or a list has a part"),
    "lower": Function((_STR,), STR, _lower, help="the text in small letters"),
    "basename": Function((_STR,), STR, _basename, help="the last part of a path"),
    "split": Function((_STR, _STR), list_of(_STR), lambda text, mark: _split(text, mark), help="the parts of a text"),
    "strip": Function((_STR,), STR, lambda text: text.strip()[:10_000], help="the text without space around it"),
    "is_regex": Function((_STR,), BOOL, _is_regex, help="whether a text is a regular expression"),
    "is_number": Function((ALL,), BOOL, lambda value: number(value) is not UNKNOWN, help="whether it is a number"),
    "is_string": Function((ALL,), BOOL, lambda value: isinstance(value, str), help="whether it is a text"),
    "is_bool": Function((ALL,), BOOL, lambda value: isinstance(value, bool), help="whether it is true or false"),
    "is_list": Function((ALL,), BOOL, lambda value: isinstance(value, (list, tuple)), help="whether it is a list"),
    "is_map": Function((ALL,), BOOL, lambda value: isinstance(value, dict), help="whether it is a mapping"),
    "gib": Function((_NUM, _INT), STR, gib, optional=1, help="bytes as text: 61.4 GiB"),
    "mib": Function((_NUM, _INT), STR, _mib, optional=1, help="bytes as text: 953 MiB"),
    "percent": Function((_NUM, _NUM), STR, _percent, optional=1, help="a share (of a whole) as text: 43 %"),
    "count": Function((_NUM,), STR, _count, help="a number as people say it: 8.03 billion, 152,064"),
    "join": Function((_LIST, _STR), STR, _join, optional=1, help="a list as text"),
}


def _split(text: str, mark: str) -> Any:
    if not mark or len(text) > 10_000:
        return UNKNOWN
    parts = text.split(mark)
    return parts if len(parts) <= MAX_ITEMS else UNKNOWN
