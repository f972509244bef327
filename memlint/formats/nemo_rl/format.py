"""The NeMo-RL format: files and commands of `examples/run_grpo.py` and its siblings, read in NeMo-RL 0.2 to 0.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.nemo_rl import behaviour, megatron
from memlint.formats.nemo_rl.config import NemoConfig, config_of, has_copy
from memlint.formats.nemo_rl.issues import nemo_rl_issues
from memlint.formats.nemo_rl.key_issues import key_issues
from memlint.formats.nemo_rl.keys import KEYS
from memlint.formats.nemo_rl.recognise import NAME, SCHEMA, recognise
from memlint.formats.nemo_rl.training import read_stack, readings
from memlint.formats.verl.model import find_model
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # OmegaConf


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run: that of the policy's GPUs. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, KEYS, context)
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    below = tuple(section.document for section in config.below)
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    run = run._replace(readings=readings(config, run))
    issues = key_issues(config)
    raw, places = {"config": value}, {"config": (document.path, ())}
    every = (*issues, *nemo_rl_issues(fields, config), *fields.issues)
    return Parsed(NAME, (run,), every, (document, *below), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where NeMo-RL has no key for one of them."""
    from memlint.formats.nemo_rl.edits import nemo_rl_edits  # writes keys back: for fixes

    return nemo_rl_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "NeMo-RL" if has_copy(context) else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: NeMo-RL has no other engine for it. Its adapters are not PEFT's."""
    return rule == "PAR009" or rule.startswith("PEF")


def _fill(fields: Fields, config: NemoConfig) -> None:
    """Put all fields: the code's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    read_stack(fields, config)
    KEYS.read(fields, config, config)
    if config.engine == "megatron":
        megatron.put_own_options(fields, config)
    read_start(fields, config.own.document, KEYS)
