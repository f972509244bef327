"""Issues of a command of OpenRLHF: values that its argparse refuses. Releases and forks differ in their flags, so an
unknown one is reported where it is a slip."""

from __future__ import annotations

from memlint.formats.base import Issue
from memlint.formats.fields import interpolated, value_at
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.formats.openrlhf.keys import KEYS
from memlint.formats.openrlhf.recognise import SCHEMA
from memlint.formats.schema.validate import schema_issues


def openrlhf_issues(config: OpenRLHFConfig) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    return tuple(issue for issue in found if _is_reported(issue, config))


def _is_reported(issue: Issue, config: OpenRLHFConfig) -> bool:
    if issue.code == "unknown-key":
        start = config.section.document.start
        own = start is not None and bool(issue.pointer) and issue.pointer[0] in start.defined
        return "did you mean" in issue.message and not own
    value = value_at(config.section.value, issue.pointer)
    key = str(issue.pointer[0]) if issue.pointer else ""
    typed = key in KEYS and KEYS[key].kind in ("whole", "number")
    return typed and isinstance(value, str) and not interpolated(value) and KEYS[key].parsed(value) is None
