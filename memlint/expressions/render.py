"""Messages for one run: the values of their expressions, spelled as a config would."""

from __future__ import annotations

from typing import Any, Union

from memlint.expressions.build import Form, build
from memlint.expressions.facts import Facts
from memlint.run import UNKNOWN

Template = tuple[Union[str, Form], ...]
_MAX_TEXT = 600  # of one value in a message: what `join` makes of several is one
_MAX_BITS = 512  # of a whole number: one cut to _MAX_TEXT digits would be another number


def render(template: Template, facts: Facts) -> str:
    """The message for one run."""
    return "".join(part if isinstance(part, str) else words(build(part)(facts)) for part in template)


def words(value: Any) -> str:
    """A value as a config would spell it."""
    if value is UNKNOWN:
        return "unknown"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return ".".join(str(item) for item in value)
    if isinstance(value, (list, tuple)):
        return ", ".join(words(item) for item in value[:20])
    if isinstance(value, dict):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a very large number"
    text = str(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
