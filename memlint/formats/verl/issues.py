"""Issues of a verl file. Hydra refuses an override of a key that does not exist unless it is written with `+`. Forks
add keys of their own, so only a slip of a known key is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.fields import Section, value_at
from memlint.formats.schema.suggest import slip_of
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.verl.config import VerlConfig, has_copy
from memlint.formats.verl.overrides import refused_overrides
from memlint.formats.verl.recognise import SCHEMA
from memlint.formats.verl.refused import refused_sizes
from memlint.source.layout import key_text

_VERL_PROGRAMS = "verl.trainer."  # main_ppo, fsdp_sft_trainer, sft_trainer
_REPORTED = ("wrong-type", "bad-value")
_TRUTH = "wants true or false"


def verl_issues(config: VerlConfig) -> tuple[Issue, ...]:
    """What the schema refuses in the file's own values: types and words; placeholders are no values. Of a command, the
    overrides that misspell a key."""
    section = config.own
    fragment = f"{SCHEMA}#{'sft' if config.is_sft else 'ppo'}"
    found = schema_issues(section.value, section.document.path, fragment, config.context.versions)
    reported = (_as_read(issue, config) for issue in found if _is_reported(issue, config))
    slips = tuple(_misspelled_overrides(config, fragment))
    refused = () if slips else refused_overrides(config)
    return (*reported, *slips, *refused, *refused_sizes(config))


def _as_read(issue: Issue, config: VerlConfig) -> Issue:
    """A warning about a word or a number where true or false is asked: no type is checked, and Python takes any text,
    and any number but 0, for true."""
    value = value_at(config.own.value, issue.pointer)
    if issue.code == "wrong-type" and isinstance(value, str | int | float) and value and _TRUTH in issue.message:
        return issue._replace(severity="warning", message=f"{issue.message}, which Python takes for true")
    return issue


def _misspelled_overrides(config: VerlConfig, fragment: str) -> Iterator[Issue]:
    """Nothing where a program of somebody's own reads them: what its configuration has is not known."""
    start = config.own.document.start
    if start is None or not start.program.entry.startswith(_VERL_PROGRAMS):
        return
    bases = tuple(section.value for section in (config.named, config.base) if section is not None)
    yield from _slips(config.own, compiled_schema(fragment).schema, bases)


def _slips(section: Section, schema: Mapping[str, Any], bases: tuple[Mapping[str, Any], ...]) -> Iterator[Issue]:
    """An error for each override below `section` whose key is neither in `schema` nor in `bases`, the files that it is
    for, and misspells a key of the schema."""
    known = schema.get("properties", {})
    for key, value in section.value.items():
        if isinstance(value, dict):
            below = tuple(base[key] for base in bases if isinstance(base.get(key), dict))
            yield from _slips(section.below(key), known.get(key, {}), below)
        elif key not in known and not any(key in base for base in bases) and not _adds(section, key):
            near = slip_of(key, known, section.value)
            if near:
                name = ".".join((*map(str, section.pointer), near))
                message = f"Hydra refuses the override of `{key}`, which does not exist: did you mean `{name}`?"
                yield section.issue("unknown-key", message, key, on_key=True, suggestion=near)


def _adds(section: Section, key: str) -> bool:
    """Whether Hydra takes the override for a new key: `+a.b=1`, `++a.b=1`."""
    return key_text(section.document, (*section.pointer, key)).startswith("+")


def _is_reported(issue: Issue, config: VerlConfig) -> bool:
    value = value_at(config.own.value, issue.pointer)
    placeholder = isinstance(value, str) and ("$" in value or value == "???" or "oc." in value)
    if config.own.document.start is not None and len(issue.pointer) == 1 and isinstance(value, str):
        return False  # `engine=megatron` picks a file of the group
    if value == "after_each_epoch" and issue.pointer[-1] in ("test_freq", "save_freq"):
        return False  # trainer/sft_trainer.py of verl 0.7
    if isinstance(value, bool) and issue.code == "wrong-type":
        return False  # Python compares it as a number: `trainer.test_freq=False` never tests
    if value in (0, 1) and issue.message.startswith(f"`{'.'.join(map(str, issue.pointer))}` {_TRUTH}"):
        return False  # and as a truth value: `trainer.val_before_train=0`
    if issue.code == "unknown-key" or (
        issue.code == "bad-value" and isinstance(value, str) and has_copy(config.context)
    ):
        return "did you mean" in issue.message
    return issue.code in _REPORTED and not placeholder and value is not None
