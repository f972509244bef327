"""What SkyRL refuses in a command: keys that no release declares, texts that are no numbers, sizes that do not go
together. A program of somebody's own may declare keys of its own; so may a copy of SkyRL."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import value_at
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.skyrl.config import SkyRLConfig, has_copy
from memlint.formats.skyrl.recognise import SCHEMA
from memlint.formats.skyrl.refused import is_judged, refused
from memlint.formats.skyrl.roles import CRITIC_MODEL
from memlint.formats.unread_texts import unread_texts
from memlint.source.layout import key_text


def skyrl_issues(config: SkyRLConfig) -> Iterator[Issue]:
    own = config.own
    closed = is_judged(config) and not has_copy(config.context)
    schema = f"{SCHEMA}#{'yaml' if config.is_older else 'classes'}"
    for issue in schema_issues(own.value, own.document.path, schema, config.context.versions):
        if issue.code == "bad-value" or (closed and issue.code == "unknown-key" and not _adds(config, issue)):
            yield issue
    if closed:
        texts = unread_texts(own, compiled_schema(schema).schema, "SkyRL fails on it")
        yield from (one for one in texts if _is_read(config, one))
    yield from refused(config)


def _is_read(config: SkyRLConfig, issue: Issue) -> bool:
    """Whether it is a value that somebody computes with: no placeholder, nor a critic's where there is none."""
    of_critic = any("critic" in str(step) for step in issue.pointer)
    has_critic = config.get(CRITIC_MODEL) is not None
    return "$" not in str(value_at(config.own.value, issue.pointer)) and (has_critic or not of_critic)


def _adds(config: SkyRLConfig, issue: Issue) -> bool:
    """Whether Hydra takes the override for a new key: `+a.b=1`."""
    return key_text(config.own.document, issue.pointer).startswith("+")
