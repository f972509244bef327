"""Issues of a document of ms-swift: keys and values that its argument parser refuses (utils/utils.py, parse_args)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.argument_values import refused_value
from memlint.formats.base import Issue
from memlint.formats.fields import as_bool
from memlint.formats.key_releases import key_releases, refused_keys
from memlint.formats.misspelled_flags import misspelled_flags
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.swift.config import SwiftConfig, has_copy
from memlint.formats.swift.recognise import SCHEMA
from memlint.formats.trainer.argument_names import NAMES, TRAINING_ARGUMENTS

# Choices that have grown with the releases (3.0 to 4.6.0 arguments/rlhf_args.py, base_args/model_args.py,
# base_args/quant_args.py): without a stated release only a slip of one is told.
_GROWING = frozenset(
    {
        *("rlhf_type", "task_type", "quant_method", "scale_rewards", "advantage_reweight", "optim"),
        *("lr_scheduler_type", "importance_sampling_level", "advantage_estimator"),
    }
)
_NOT_THE_PARSERS = frozenset({"ENV"})


def swift_issues(config: SwiftConfig) -> tuple[Issue, ...]:
    """What the parser refuses. Every value becomes an argument first, so that a word may stand for a list (cli/main.py,
    parse_yaml_args). A flag that is left over is an error unless `ignore_args_error` is set (pipelines/base.py:37-40).
    Release 2 has others, such as `lora_dropout_p`."""
    section = config.section
    if config.is_release_2:
        return ()
    typed = tuple(_values(config))
    if as_bool(section.value.get("ignore_args_error")):
        return typed
    slips = tuple(misspelled_flags(section, SCHEMA))
    return (*slips, *_of_other_releases(config, slips), *typed)


def _values(config: SwiftConfig) -> Iterator[Issue]:
    known = compiled_schema(SCHEMA).schema["properties"]
    for key, value in config.section.value.items():
        schema = known.get(key) if key not in _NOT_THE_PARSERS else None
        wanted = refused_value(value, schema) if schema is not None else ""
        if wanted and not _may_be_newer(config, str(key), value, schema or {}):
            code = "bad-value" if "`" in wanted else "wrong-type"
            near = nearest(value, wanted.replace("`", "").split(", ")) if isinstance(value, str) else ""
            hint = f", did you mean `{near}`?" if near and code == "bad-value" else ""
            message = f"`{key}` wants {wanted}, got {value!r}{hint}: ms-swift refuses to start"
            yield config.section.issue(code, message, str(key), suggestion=near if hint else "")


def _may_be_newer(config: SwiftConfig, key: str, value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a word may be one of another release."""
    if key not in _GROWING or config.context.versions.get("swift"):
        return False
    choices = [str(one) for part in schema.get("anyOf", (schema,)) for one in part.get("enum", ())]
    return not isinstance(value, str) or not nearest(value, choices)


def _is_transformers_own(key: str) -> bool:
    """Whether a release of transformers' TrainingArguments has the key: which one is installed is not known."""
    gone = compiled_schema("trainer.json").schema["properties"].get(key, {}).get("x-memlint-removed-in", "")
    return key in TRAINING_ARGUMENTS or key in NAMES["Seq2SeqTrainingArguments"] or gone.startswith("transformers")


def _of_other_releases(config: SwiftConfig, slips: tuple[Issue, ...]) -> Iterator[Issue]:
    """Keys that no release takes beside the others, or that the stated one does not take; transformers' own are those
    of its newest releases."""
    program = "rlhf" if config.task not in ("pt", "sft") else "sft"
    table = key_releases("swift", program)
    if table is None or has_copy(config.context):
        return
    told = {issue.pointer for issue in slips}
    spellings = {str(key): str(key).replace("-", "_") for key in config.section.value if (key,) not in told}
    names = [name for name in spellings.values() if name != "ENV" and not _is_transformers_own(name)]
    refusal = table.refusal(names, config.context.versions.get("swift", ()), abbreviates=True)
    if refusal is not None:
        yield from refused_keys(config.section, table, refusal, f"`swift {program}` of ms-swift")
