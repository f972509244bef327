"""What the schema refuses in a file of EasyR1, but for what the repository's own copy declares otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Context, Issue
from memlint.formats.declared_types import is_declared_so
from memlint.formats.easyr1.recognise import SCHEMA
from memlint.formats.fields import value_at
from memlint.formats.schema.validate import schema_issues
from memlint.source.document import Document

_COPY = "verl"  # the package of EasyR1, which forks carry: verl/trainer/config.py, verl/workers/actor/config.py


def easyr1_issues(document: Document, context: Context) -> Iterator[Issue]:
    for issue in schema_issues(document.value, document.path, SCHEMA, context.versions):
        value = value_at(document.value, issue.pointer)
        if issue.code != "wrong-type" or not is_declared_so(issue, value, context, _COPY):
            yield issue
