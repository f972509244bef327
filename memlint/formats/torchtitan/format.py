"""The TorchTitan format: its TOML, read in TorchTitan 0.2.2 and 0.1.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Issue, Parsed
from memlint.formats.fields import Fields, root, value_at
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.torchtitan import behaviour
from memlint.formats.torchtitan.config import TitanConfig, has_copy
from memlint.formats.torchtitan.keys import KEYS
from memlint.formats.torchtitan.reading import GLOBAL, MICRO, MODE
from memlint.formats.torchtitan.recognise import NAME, SCHEMA, recognise
from memlint.formats.unread_texts import unread_texts
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

_MODES = ("none", "selective", "full", "memory_budget")
_READS_NO_FILE_SINCE = (0, 3)
DIALECT = "yaml12"  # of no file: TOML says by itself what is text


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = TitanConfig(root(document), KEYS, context)
    fields = Fields()
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    apply_hardware(fields, context, unused=OTHER_TRAINERS)
    KEYS.read(fields, config, config)
    issues = (*_unread(document, context), *_issues(config), *_refused(config, fields), *fields.issues)
    run = fields.run(NAME, document.path)
    raw, places = {"config": document.value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), issues, (document,), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file; None where TorchTitan has no key for one of them."""
    from memlint.formats.torchtitan.edits import titan_edits  # writes keys back: for fixes

    return titan_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "TorchTitan" if has_copy(context) else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU, which TorchTitan does not use there."""
    return rule == "PAR009"


def _unread(document: Document, context: Context) -> Iterator[Issue]:
    """A file for a release that reads none: `--module` and `--config` name a function (0.3.0
    torchtitan/config/manager.py, ConfigManager)."""
    release = context.versions.get("torchtitan", ())
    if release >= _READS_NO_FILE_SINCE and not has_copy(context):
        message = f"TorchTitan {'.'.join(map(str, release))} reads no TOML: `--module` and `--config` name a function"
        yield Issue("unreadable-config", message, document.path, (), "warning")


def _issues(config: TitanConfig) -> Iterator[Issue]:
    """Keys that no release has, and texts that are no numbers: no type is checked before a value is used. A copy may
    have keys of its own, and a file names a module that adds some."""
    section = config.section
    custom = value_at(section.value, ("job", "custom_config_module"))
    open_ = bool(custom) or has_copy(config.context) or config.is_before_0_2
    for issue in schema_issues(section.value, section.document.path, SCHEMA, config.context.versions):
        if issue.code == "unknown-key" and not open_:
            yield issue
    texts = unread_texts(section, compiled_schema(SCHEMA).schema, "TorchTitan fails on it")
    yield from (one for one in texts if "true or false" not in one.message)  # Python takes any text for true


def _refused(config: TitanConfig, fields: Fields) -> Iterator[Issue]:
    """A global batch that no accumulation makes (0.2.2 torchtitan/train.py, Trainer), and a mode that
    distributed/activation_checkpoint.py does not know."""
    mode = config.raw(MODE)
    if mode is not None and mode not in _MODES:
        message = f"`{mode}` is none of {', '.join(_MODES)}: TorchTitan fails on it"
        yield config.section.issue("bad-value", message, *config.path(MODE))
    micro, whole = config.count(MICRO), config.count(GLOBAL)
    ranks = fields.get("parallelism.data_parallel_size")
    if micro > 0 and whole > 0 and isinstance(ranks, int) and whole % (micro * ranks):
        message = f"{whole} is no multiple of {micro} sequences on {ranks} ranks: TorchTitan refuses to start"
        yield config.section.issue("conflict", message, *config.path(GLOBAL))
