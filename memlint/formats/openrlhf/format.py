"""The OpenRLHF format: commands of `openrlhf.cli.train_*`, read in OpenRLHF 0.11.2 and, for flags without sections,
in 0.5.9 to 0.9.10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.key_releases import put_release
from memlint.formats.keys import read_start
from memlint.formats.openrlhf import behaviour, model
from memlint.formats.openrlhf.config import OpenRLHFConfig, has_copy, has_sections
from memlint.formats.openrlhf.engine import apply_engine
from memlint.formats.openrlhf.issues import flags_of_no_release, is_own_copy, openrlhf_issues
from memlint.formats.openrlhf.keys import KEYS
from memlint.formats.openrlhf.recognise import NAME, SCHEMA, recognise
from memlint.formats.openrlhf.releases import LAST_WITHOUT_SECTIONS, TAKES
from memlint.formats.trainer_names import with_taken_releases
from memlint.run import Origin, Reading, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "yaml12"
_OF_ANOTHER_TRAINING = 3  # flags of no release: a copy with so many trains another model, or otherwise


def parse(document: Document, context: Context) -> Parsed:
    """The command as one run: that of the policy's GPUs. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    shown = () if has_sections(document.value) else LAST_WITHOUT_SECTIONS
    config = OpenRLHFConfig(root(document), KEYS, with_taken_releases(context, NAME, TAKES, shown))
    fields = Fields()
    _fill(fields, config)
    if any(isinstance(key, str) and "fsdp" in key for key in document.value):
        fields.infer("stack.unmodelled", "FSDP in place of DeepSpeed", "a flag that OpenRLHF itself does not have")
    elif is_own_copy(config) and len(flags_of_no_release(config)) >= _OF_ANOTHER_TRAINING:
        fields.infer("stack.unmodelled", "a changed copy of OpenRLHF", "several flags are of no release")
    run = fields.run(NAME, document.path)
    run = run._replace(readings=_readings(config, run))
    issues = (*openrlhf_issues(config), *fields.issues)
    return Parsed(NAME, (run,), issues, (document,), {"config": document.value}, {"config": (document.path, ())})


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the command's flags; None where OpenRLHF has no flag for one of them."""
    from memlint.formats.openrlhf.edits import openrlhf_edits  # writes flags back: for fixes

    return openrlhf_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "OpenRLHF" if has_copy(context) else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """No flag sets DeepSpeed's buckets (PAR002, PAR006), and the reference is a model of its own beside an adapter too
    (PRF001). What OpenRLHF's programs check is not known of a copy of them."""
    return rule in ("PAR002", "PAR006", "PRF001") or (rule.startswith("ORL") and has_copy(context))


def _fill(fields: Fields, config: OpenRLHFConfig) -> None:
    """DeepSpeed's own first, then what the command says, in the order of the table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its flags"))
    put_release(fields, NAME, config.context)
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    model.read_model(fields, config)
    model.read_dtype(fields, config)
    apply_engine(fields, config)
    fields.behave(*behaviour.COMMON)
    fields.put("method.stage", config.stage, Origin("inferred", detail=f"the program train_{config.program}"))
    if config.stage == "rm":
        fields.behave(*behaviour.REWARD)
    else:
        fields.behave(*behaviour.LOGITS)
    if config.stage in ("sft", "ppo"):
        fields.behave(behaviour.HELD)
    if config.trains_with_rewards:
        fields.behave(*behaviour.BETWEEN_UPDATES)
    KEYS.read(fields, config, config)
    read_start(fields, config.section.document, KEYS)


def _readings(config: OpenRLHFConfig, run: Run) -> tuple[Reading, ...]:
    """A command without sections in its flags may be of a release that computed attention otherwise."""
    field = "attention.implementation"
    if not model.may_be_eager(config):
        return ()
    return (
        Reading(
            f"nobody says which release runs: {model.OLD_ATTENTION}",
            "with eager attention",
            "with FlashAttention 2",
            ((field, "eager"),),
            ((field, run.attention.implementation),),
            settled_itself="holds where the release is stated: openrlhf>=0.8.10 in the requirements",
        ),
    )
