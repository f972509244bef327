"""The value of a plain scalar in each dialect, that is for each kind of reader of the file.

`yaml11`     PyYAML's SafeLoader 6.0 (yaml/resolver.py, yaml/constructor.py): `1e-5` is a string, `on` is true,
             `010` is 8, `1:30` is 90. `HfArgumentParser.parse_yaml_file` and accelerate read this way.
`omegaconf`  OmegaConf 2.4 (`_yaml.py`): the same, and then `1e-5` is a float, and no dates. LLaMA-Factory.
`yaml12`     the core schema of YAML 1.2 (section 10.3.2).
`json`       the numbers and names of JSON, as Python's `json` reads them.

Dates stay strings here, as nothing in a training config is a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Union

import yaml

Scalar = Union[str, int, float, bool, None]

MAX_DIGITS = 64  # far more than any setting needs; prevents overflow and quadratic time in later arithmetic

_NULLS: dict[str, Scalar] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_CORE_BOOLS: dict[str, Scalar] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS_11: dict[str, Scalar] = {
    **_NULLS,
    **_CORE_BOOLS,
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF"), False),
}
_WORDS_12: dict[str, Scalar] = {**_NULLS, **_CORE_BOOLS}
_WORDS_JSON: dict[str, Scalar] = {"null": None, "true": True, "false": False}

_TAG = "tag:yaml.org,2002:"
_PATTERNS_11 = dict(yaml.SafeLoader.yaml_implicit_resolvers["0"])  # PyYAML's own, of what may begin with a digit
_FLOAT_11, _INT_11, _TIMESTAMP_11 = (_PATTERNS_11[_TAG + kind] for kind in ("float", "int", "timestamp"))
# The other patterns are text, so that `re` compiles one only when a scalar of its dialect first needs it.
_FLOAT_OMEGACONF = (
    r"(?:[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)"
    r"|\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*)"
)
_INT_12 = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT_12 = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_SPECIAL_12 = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_NUMBER_JSON = r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_BEFORE_DIGITS = r"^[-+]?(?:0[box])?"
NUMERIC_START = frozenset("-+.0123456789")


class ScalarProblem(ValueError):
    """A plain scalar that its reader refuses. `code` and the message become a `Problem`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def yaml11(raw: str) -> Scalar:
    if raw in _WORDS_11:
        return _WORDS_11[raw]
    if raw[0] in NUMERIC_START:
        return int(raw) if _is_simple(raw) else _number_11(raw)
    if raw in ("=", "<<"):
        raise ScalarProblem("special-key", f"PyYAML cannot read a bare {raw} as a value; write it in quotes")
    return raw


def omegaconf(raw: str) -> Scalar:
    if raw[:1] not in NUMERIC_START:
        return yaml11(raw)
    if _is_simple(raw):
        return int(raw)
    value = _number_11(raw, dates=False)
    if value is raw and re.fullmatch(_FLOAT_OMEGACONF, raw):
        return _float_11(raw)
    return value


def yaml12(raw: str) -> Scalar:
    if raw in _WORDS_12:
        return _WORDS_12[raw]
    if raw[0] not in NUMERIC_START:
        return raw
    if re.fullmatch(_INT_12, raw):
        return integer(raw, {"0o": 8, "0x": 16}.get(raw[:2], 10))
    if re.fullmatch(_FLOAT_12, raw):
        return float(raw)
    return float(raw.replace(".", "")) if re.fullmatch(_SPECIAL_12, raw) else raw


def json(raw: str) -> Scalar:
    """JSON's own words and numbers; anything else (a YAML file read for a JSON consumer) stays a string."""
    if raw in _WORDS_JSON:
        return _WORDS_JSON[raw]
    if raw in ("", "~"):
        return None
    match = re.fullmatch(_NUMBER_JSON, raw)
    if match is None:
        return raw
    return float(raw) if match.lastindex else integer(raw, 10)


RESOLVERS: dict[str, Callable[[str], Scalar]] = {
    "yaml11": yaml11,
    "omegaconf": omegaconf,
    "yaml12": yaml12,
    "json": json,
}


# These dialects differ in what begins as a number alone.
ALIKE_BUT_IN_NUMBERS = frozenset(("yaml11", "omegaconf"))


def _is_simple(raw: str) -> bool:
    """Whether every dialect reads `raw` as a decimal integer: most numbers in configs are like that."""
    return raw.isdigit() and raw.isascii() and (raw[0] != "0" or raw == "0") and len(raw) < 19


def _number_11(raw: str, dates: bool = True) -> Scalar:
    if _FLOAT_11.fullmatch(raw):
        return _float_11(raw)
    if _INT_11.fullmatch(raw):
        return _int_11(raw)
    if dates and _TIMESTAMP_11.fullmatch(raw):
        _check_timestamp(raw)
    return raw


def _float_11(raw: str) -> float:
    if raw[-1].isdigit() and "_" not in raw and ":" not in raw:
        return float(raw)
    digits = raw.replace("_", "").lower()
    sign = -1.0 if digits[0] == "-" else 1.0
    digits = digits.lstrip("+-")
    if digits in (".inf", ".nan"):
        return sign * float(digits[1:])
    if ":" not in digits:
        return sign * float(digits)
    _bound(digits)
    value, base = 0.0, 1
    for part in reversed(digits.split(":")):  # in PyYAML's order, so that the rounding is the same
        value += float(part) * base
        base *= 60
    return sign * value


def _int_11(raw: str) -> int:
    digits = raw.replace("_", "")
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if ":" in digits:
        _bound(digits)
        value = 0
        for part in digits.split(":"):
            value = value * 60 + int(part)
        return sign * value
    base = {"0b": 2, "0x": 16}.get(digits[:2], 8 if digits[0] == "0" else 10)
    return sign * integer(digits, base)


def integer(digits: str, base: int) -> int:
    """`digits` as an integer of at most 64 digits (256 binary ones).

    :raises ScalarProblem: for longer ones, and for a prefix without digits (`0x_`), which PyYAML cannot read.
    """
    bare = re.sub(_BEFORE_DIGITS, "", digits)
    _bound(bare, 4 * MAX_DIGITS if base == 2 else MAX_DIGITS)
    try:
        return int(digits, base)
    except ValueError:
        raise ScalarProblem("bad-number", f"{digits} looks like a number but has no digits") from None


def _bound(digits: str, limit: int = MAX_DIGITS) -> None:
    if len(digits) > limit:
        raise ScalarProblem("huge-integer", f"an integer of {len(digits)} digits; no setting needs that many")


def _check_timestamp(raw: str) -> None:
    """PyYAML turns the scalar into a date and fails when there is no such day."""
    try:
        yaml.constructor.SafeConstructor().construct_yaml_timestamp(yaml.ScalarNode(f"{_TAG}timestamp", raw))
    except ValueError as error:
        reason = f"{raw} is read as a date, and there is no such date ({error}); write it in quotes"
        raise ScalarProblem("impossible-date", reason) from None


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, through lists and mappings (True is not 1, and 1.0 is not 1; key order counts not)."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))
