"""The verl format: files and command lines of `verl.trainer.main_ppo` and of verl's SFT trainer, read in verl 0.9.1.

A command's overrides lie over the file in the repository that it composes, where there is one: forks of verl keep
their own defaults in `verl/trainer/config/ppo_trainer.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.key_releases import put_release
from memlint.formats.keys import read_start
from memlint.formats.trainer_names import with_taken_releases
from memlint.formats.verl import behaviour
from memlint.formats.verl.composed import composed
from memlint.formats.verl.config import VerlConfig, has_copy
from memlint.formats.verl.engine_keys import put_own_options
from memlint.formats.verl.issues import verl_issues
from memlint.formats.verl.keys import KEYS
from memlint.formats.verl.keys_sft import KEYS as SFT_KEYS
from memlint.formats.verl.model import find_model, read_towers
from memlint.formats.verl.overrides import VERL_PROGRAMS
from memlint.formats.verl.parallel import strategy
from memlint.formats.verl.recognise import (
    NAME,
    SCHEMA,
    is_for_own_program,
    is_reinforcement,
    is_sft,
    is_template,
    recognise,
)
from memlint.formats.verl.releases import TAKES
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # Hydra's OmegaConf
_VERL_PROGRAM_RULES = ("VER", "ROL004")
_OF_ANY_COPY = ("VER001", "VER002")  # about sizes that every release reads


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run; as none where it holds verl's own defaults alone. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict) or (document.start is None and is_template(document, value)):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, context)
    if not config.is_sft and config.flag("trainer.val_only"):
        return Parsed(NAME, (), (), (document,))  # it validates, and trains nothing
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    below = tuple(section.document for section in (config.named, config.base) if section is not None)
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    documents = (document, *below)
    raw, places = {"config": value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), (*verl_issues(config), *fields.issues), documents, raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where verl has no key for one of them."""
    from memlint.formats.verl.edits import verl_edits  # writes keys back: for fixes

    return verl_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    """What sizes the copy refuses is clear where its checks are verl's own; its configuration may have more keys."""
    is_clear = rule == "CFG008" and context.repository.has_checks_of("verl")
    return "verl" if has_copy(context) and not is_clear else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: verl has no other engine for it. What verl's checks refuse, and how long the
    sequences of its rollout get, is not known of a program that is not verl's; nor is that length where an agent loop
    of the repository fills the engine's context."""
    if rule == "PAR009" or (rule.startswith(_VERL_PROGRAM_RULES) and is_for_own_program(document)):
        return True
    if rule.startswith("VER") and rule not in _OF_ANY_COPY and has_copy(context):
        return True  # a copy of verl may take words and sizes of its own
    return rule == "ROL004" and context.repository.fills_context()


def config_of(document: Document, context: Context) -> VerlConfig:
    sft = _is_sft(document)
    files = composed(document, context, sft)
    context = with_taken_releases(context, NAME, TAKES)
    return VerlConfig(root(document), files, SFT_KEYS if sft else KEYS, context, sft)


def _is_sft(document: Document) -> bool:
    """Whether the SFT trainer reads it: as the command's program says, else by the keys."""
    value = document.value
    entry = document.start.program.entry if document.start is not None else ""
    if entry in VERL_PROGRAMS:
        return "sft" in entry
    if document.start is not None and not is_reinforcement(value):
        return "sft" in entry or is_sft(value)
    return not is_reinforcement(value)


def _fill(fields: Fields, config: VerlConfig) -> None:
    """Put all fields: verl's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    put_release(fields, NAME, config.context)
    fields.behave(*behaviour.FSDP, *(() if config.is_sft else behaviour.ENGINE))
    fields.put("method.stage", "sft", Origin("inferred", detail="verl's SFT trainer"))
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    if config.is_sft:
        read_towers(fields, config)
    (SFT_KEYS if config.is_sft else KEYS).read(fields, config, config)
    if strategy(config) == "megatron":
        put_own_options(fields, config)
    read_start(fields, config.own.document, SFT_KEYS if config.is_sft else KEYS)
    fields.issues.clear()
