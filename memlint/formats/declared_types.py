"""What dataclasses of a copy of a framework in the repository declare, where that is more than its releases take."""

from __future__ import annotations

import re
from typing import Any

from memlint.formats.base import Context, Issue

_LISTS = frozenset(("Any", "List", "list", "Sequence", "Tuple", "tuple"))
_TYPES: dict[type, frozenset[str]] = {
    bool: frozenset(("Any", "bool")),
    int: frozenset(("Any", "int", "float")),
    float: frozenset(("Any", "float")),
    str: frozenset(("Any", "str")),
    list: _LISTS,
    dict: frozenset(("Any", "Dict", "dict", "Mapping")),
}


def is_declared_so(issue: Issue, value: Any, context: Context, package: str) -> bool:
    """Whether a class of the repository's copy of `package` takes such a value at the key (`val_files: Any`)."""
    declared = context.repository.field_annotations(str(issue.pointer[-1]), package) if issue.pointer else ""
    return not _TYPES.get(type(value), frozenset()).isdisjoint(re.findall(r"\w+", declared))
