"""What the schema refuses in a file of EasyR1, but for what the repository's own copy declares otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memlint.formats.base import Context, Issue
from memlint.formats.easyr1.recognise import SCHEMA
from memlint.formats.fields import value_at
from memlint.formats.schema.validate import schema_issues
from memlint.source.document import Document

_COPY = "verl"  # the package of EasyR1, which forks carry: verl/trainer/config.py, verl/workers/actor/config.py
_LISTS = frozenset(("Any", "List", "list", "Sequence", "Tuple", "tuple"))
_TYPES: dict[type, frozenset[str]] = {
    bool: frozenset(("Any", "bool")),
    int: frozenset(("Any", "int", "float")),
    float: frozenset(("Any", "float")),
    str: frozenset(("Any", "str")),
    list: _LISTS,
    dict: frozenset(("Any", "Dict", "dict", "Mapping")),
}


def easyr1_issues(document: Document, context: Context) -> Iterator[Issue]:
    for issue in schema_issues(document.value, document.path, SCHEMA, context.versions):
        if issue.code != "wrong-type" or not _is_declared_so(issue, value_at(document.value, issue.pointer), context):
            yield issue


def _is_declared_so(issue: Issue, value: Any, context: Context) -> bool:
    """Whether a dataclass of the repository's copy takes a value of this type at the key (`val_files: Any`)."""
    declared = context.repository.field_annotations(str(issue.pointer[-1]), _COPY) if issue.pointer else ""
    return not _TYPES.get(type(value), frozenset()).isdisjoint(re.findall(r"\w+", declared))
