"""Issues of a verl file. Hydra refuses an override of a key that does not exist unless it is written with `+`. Forks
add keys of their own, so only a slip of a known key is reported."""

from __future__ import annotations

from memlint.formats.base import Issue
from memlint.formats.fields import value_at
from memlint.formats.schema.validate import schema_issues
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.recognise import SCHEMA

_REPORTED = ("wrong-type", "bad-value")


def verl_issues(config: VerlConfig) -> tuple[Issue, ...]:
    """What the schema refuses in the file's own values: types and words; placeholders are no values."""
    section = config.own
    fragment = f"{SCHEMA}#{'sft' if config.is_sft else 'ppo'}"
    found = schema_issues(section.value, section.document.path, fragment, config.context.versions)
    return tuple(issue for issue in found if _is_reported(issue, config))


def _is_reported(issue: Issue, config: VerlConfig) -> bool:
    value = value_at(config.own.value, issue.pointer)
    placeholder = isinstance(value, str) and ("$" in value or value == "???" or "oc." in value)
    if config.own.document.start is not None and len(issue.pointer) == 1 and isinstance(value, str):
        return False  # `engine=megatron` picks a file of the group
    if value == "after_each_epoch" and issue.pointer[-1] in ("test_freq", "save_freq"):
        return False  # trainer/sft_trainer.py of verl 0.7
    if isinstance(value, bool) and issue.code == "wrong-type":
        return False  # Python compares it as a number: `trainer.test_freq=False` never tests
    if value in (0, 1) and issue.message.startswith(f"`{'.'.join(map(str, issue.pointer))}` wants true or false"):
        return False  # and as a truth value: `trainer.val_before_train=0`
    if issue.code == "unknown-key":
        return "did you mean" in issue.message
    return issue.code in _REPORTED and not placeholder and value is not None
