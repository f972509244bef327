"""Issues of a document of ms-swift: keys and values that its argument parser refuses (utils/utils.py, parse_args)."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, interpolated, value_at
from memlint.formats.misspelled_flags import misspelled_flags
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import schema_issues
from memlint.formats.swift.config import SwiftConfig
from memlint.formats.swift.keys import KEYS
from memlint.formats.swift.recognise import SCHEMA

# Words that argparse has as choices (ms-swift 4.6.0 arguments/base_args/model_args.py, arguments/rlhf_args.py). Newer
# releases train by more names, so that only a slip of one is told.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "torch_dtype": ("bfloat16", "float16", "float32"),
    "rlhf_type": ("dpo", "orpo", "simpo", "kto", "cpo", "rm", "ppo", "grpo", "gkd"),
}


def swift_issues(config: SwiftConfig) -> tuple[Issue, ...]:
    """What the parser refuses: text where a number or a switch is read. Every value becomes an argument first, so that
    a word may stand for a list (cli/main.py, parse_yaml_args). A flag that is left over is an error unless
    `ignore_args_error` is set (pipelines/base.py:37-40). Release 2 has others, such as `lora_dropout_p`."""
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    typed = (issue for issue in found if _is_reported(issue, config))
    may_take_any = config.is_release_2 or as_bool(section.value.get("ignore_args_error"))
    slips = () if may_take_any else misspelled_flags(section, SCHEMA)
    return (*slips, *typed)


def _is_reported(issue: Issue, config: SwiftConfig) -> bool:
    value = value_at(config.section.value, issue.pointer)
    key = str(issue.pointer[0]) if issue.pointer else ""
    typed = key in KEYS and KEYS[key].kind in ("whole", "number", "flag")
    text = isinstance(value, str) and not interpolated(value)
    if text and key in _CHOICES and not config.is_release_2:
        return value not in _CHOICES[key] and (key == "torch_dtype" or nearest(value, _CHOICES[key]) != "")
    return typed and text and KEYS[key].parsed(value) is None
