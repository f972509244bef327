"""Explicit YAML tags: standard ones are applied, all others become problems. None is ever executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.source.document import Problem
from memlint.source.lines import Lines
from memlint.source.scalars import Scalar, ScalarProblem

_PREFIX = "tag:yaml.org,2002:"
_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}
_BOOLS = {**dict.fromkeys(("yes", "true", "on"), True), **dict.fromkeys(("no", "false", "off"), False)}
_CONVERSIONS: dict[str, Callable[[str], Any]] = {
    "null": lambda raw: None,
    "bool": lambda raw: _BOOLS[raw.lower()],
    "int": lambda raw: int(raw.replace("_", "")),
    "float": lambda raw: float(raw.replace("_", "")),
}


class RefusedDocument(Exception):
    """The document has no value. `start` and `end` are offsets; without `end`, one character."""

    def __init__(self, code: str, message: str, start: int, end: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.start = start
        self.end = start + 1 if end is None else end

    def problem(self, lines: Lines) -> Problem:
        return Problem(self.code, str(self), lines.span(self.start, self.end), fatal=True)


def tagged(tag: str, raw: str, plain: bool, resolve: Callable[[str], Scalar]) -> tuple[Any, ScalarProblem | None]:
    """The value of a tagged scalar, and what is wrong with it. An unknown tag leaves the text unchanged."""
    if tag == "!":
        return _resolved(raw, resolve) if plain else (raw, None)
    name = tag[len(_PREFIX) :] if tag.startswith(_PREFIX) else ""
    if name in ("str", "timestamp"):
        return raw, None
    if name not in _KINDS:
        return raw, ScalarProblem(
            "custom-tag", f"yaml.safe_load, which frameworks use, refuses the tag {_short_form(tag)}"
        )
    value, problem = _resolved(raw, resolve)
    if problem is None and not _fits(value, name):
        return _converted(tag, raw, name)
    if name == "float" and isinstance(value, int) and problem is None:
        value = float(value)
    return value, problem


def _converted(tag: str, raw: str, name: str) -> tuple[Any, ScalarProblem | None]:
    """The value that PyYAML 6.0.3 constructs from text that does not look like the tag's type, such as `!!float 4e-5`
    (constructor.py:220-290)."""
    try:
        return _CONVERSIONS[name](raw), None
    except (KeyError, ValueError):
        return raw, ScalarProblem("bad-tag", f"the tag {_short_form(tag)} does not fit the value; remove it")


def _fits(value: Scalar, name: str) -> bool:
    return isinstance(value, _KINDS[name]) and not (isinstance(value, bool) and name != "bool")


def _resolved(raw: str, resolve: Callable[[str], Scalar]) -> tuple[Scalar, ScalarProblem | None]:
    try:
        return resolve(raw), None
    except ScalarProblem as problem:
        return raw, problem


def _short_form(tag: str) -> str:
    return "!!" + tag[len(_PREFIX) :] if tag.startswith(_PREFIX) else tag
