"""Issues of an Axolotl file: keys, values, keys without their plug-in. rules/axolotl has the other checks.

Axolotl ignores a key that it does not know, so one is reported only where it is a slip of a known key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.formats.axolotl.config import AxolotlConfig
from memlint.formats.axolotl.loss import PLUGIN_OF
from memlint.formats.axolotl.releases import NAME, SCHEMA
from memlint.formats.base import Context, Issue
from memlint.formats.fields import value_at
from memlint.formats.issues import KEY_NAME_CODES
from memlint.formats.schema.validate import schema_issues


def axolotl_issues(config: AxolotlConfig) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    kept = (_with_severity_here(issue, config) for issue in found)
    own = (*_placeholders(config), *_without_plugin(config))
    return (*(issue for issue in kept if issue is not None), *own)


_NUMBERS = frozenset(("micro_batch_size", "gradient_accumulation_steps", "sequence_len", "lora_r", "eval_batch_size"))


def _with_severity_here(issue: Issue, config: AxolotlConfig) -> Issue | None:
    """An issue of the schema with its severity. Without a known release, an older one may accept what the newest
    refuses or ignores."""
    if issue.code == "unknown-key" and "did you mean" not in issue.message:
        return None
    if _is_of_a_copy(issue, config):
        return None
    if config.context.versions.get(NAME, _CHECKED) < _CHECKED and _is_of_newer_releases(issue):
        return None
    if issue.code in ("removed-key", "renamed-key") and value_at(config.section.value, issue.pointer) is None:
        return None  # `debug:` alone says nothing to any release
    if NAME in config.context.versions or (issue.pointer and issue.pointer[0] in _NUMBERS):
        return issue
    if issue.code in ("removed-key", "renamed-key", "removed-value"):
        return issue._replace(severity="info")
    return issue._replace(severity="warning") if issue.severity == "error" else issue


# Where Axolotl and its forks declare their keys: since 0.6, and before (0.4.1 utils/config/models/input/v0_4_1).
_SCHEMAS_OF_COPIES = ("axolotl/utils/schemas", "axolotl/utils/config")


def has_copy(context: Context) -> bool:
    """Whether a copy of Axolotl is in the repository."""
    return bool(_declared_in_copies("sequence_len", context))


def checks_of_copies(context: Context) -> frozenset[str]:
    """The functions with which the repository's copies of Axolotl declare and check their keys."""
    return frozenset[str]().union(*map(context.repository.own_functions, _SCHEMAS_OF_COPIES))


def _declared_in_copies(key: str, context: Context) -> str:
    """The annotations of `key` in the repository's copies of Axolotl."""
    found = (context.repository.field_annotations(key, folder) for folder in _SCHEMAS_OF_COPIES)
    return "\n".join(filter(None, found))


def _is_of_a_copy(issue: Issue, config: AxolotlConfig) -> bool:
    """Whether a copy of Axolotl in the repository takes it: forks declare keys, types and words of their own."""
    key = issue.pointer[0] if len(issue.pointer) == 1 else ""
    if not isinstance(key, str) or not key:
        return False
    theirs = _declared_in_copies(key, config.context)
    if not theirs or issue.code in KEY_NAME_CODES:
        return bool(theirs)
    value = config.section.value.get(key)
    kind = "str" if isinstance(value, str) else "bool" if isinstance(value, bool) else ""
    takes_any = kind and re.search(rf"\b{kind}\b", theirs) is not None and "Literal" not in theirs
    return bool(takes_any) or f'"{value}"' in theirs.replace("'", '"')


_CHECKED = (0, 5)  # releases before checked other types (0.4, utils/config/models/input/v0_4_1) or none (0.3)


def _is_of_newer_releases(issue: Issue) -> bool:
    """Whether the issue is about types, words and other names that a release before `_CHECKED` did not have."""
    if issue.code in ("wrong-type", "bad-value"):
        return not (issue.pointer and issue.pointer[0] in _NUMBERS)
    return issue.code == "renamed-key" and "is gone since" not in issue.message


def _placeholders(config: AxolotlConfig) -> Iterator[Issue]:
    value = config.section.document.value
    if config.section.document.start is not None:
        return  # a shell fills its variables in
    for key in sorted(config.placeholders):
        message = f"`{key}: {str(value[key])[:60]}` looks like a template's variable; its value is not known here"
        yield config.section.issue("interpolation", message, key, severity="info")


def _without_plugin(config: AxolotlConfig) -> Iterator[Issue]:
    """A plug-in's keys are known only where the plug-in is (utils/config/__init__.py, merge_input_args)."""
    for key, plugin in PLUGIN_OF.items():
        if (
            config.written(key)
            and config.own.flag(key)
            and plugin not in config.plugins
            and "plugins" not in config.placeholders
        ):
            name = f"axolotl.integrations.{'liger' if plugin == 'LigerPlugin' else 'cut_cross_entropy'}.{plugin}"
            message = f"`{key}` has no effect without its plug-in: add `{name}` to `plugins`"
            yield config.section.issue("ignored-key", message, key, severity="warning", on_key=True)
