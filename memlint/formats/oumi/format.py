"""The Oumi format: its keys as the Trainer's and TRL's arguments, then what Oumi itself does. Read in Oumi 0.9."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import memlint.formats.trainer.format as trainer
from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, root
from memlint.formats.oumi.behaviour import ALWAYS
from memlint.formats.oumi.config import OumiConfig
from memlint.formats.oumi.engine import read_what_starts_fsdp
from memlint.formats.oumi.issues import oumi_issues
from memlint.formats.oumi.keys import KEYS
from memlint.formats.oumi.recognise import NAME, SCHEMA, recognise
from memlint.formats.oumi.releases import TAKES
from memlint.formats.oumi.translate import as_trainer, moved_back, own_path
from memlint.formats.trainer_names import name_own_keys, with_taken_releases
from memlint.run import Entailed, Origin, Run
from memlint.source.document import Document, Path

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "omegaconf"


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    context = with_taken_releases(context, NAME, TAKES)
    config = OumiConfig(root(document), KEYS, context)
    read = _read(config)
    fields = read.fields
    name_own_keys(fields, document.path, partial(own_path, config))
    put_entailed(fields, partial(_entailed, config), "oumi 0.9 core/configs/params")
    run = fields.run(NAME, document.path, read.related, "train")
    of_trainer = (moved_back(config, one) for one in fields.issues)
    issues = (*oumi_issues(config), *(one for one in of_trainer if one is not None))
    raw, places = _own_sections(config, read)
    return Parsed(NAME, (run,), issues, (document, *read.companions), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file; None where Oumi has no key for one of them."""
    from memlint.formats.oumi.edits import oumi_edits  # writes keys back: for fixes

    return oumi_edits(parsed, run, changes)


def _read(config: OumiConfig) -> trainer.ReadFile:
    """What the Trainer's reader makes of the file, and what Oumi itself decides over it."""
    found = trainer.read(as_trainer(config), config.context)
    fields = found.fields
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*ALWAYS)
    KEYS.read(fields, config, config)
    read_what_starts_fsdp(fields, config)
    for reason in _unmodelled(config):
        fields.infer("stack.unmodelled", reason, f"`training.trainer_type: {config.trainer}`")
        fields.infer("stack.unmodelled_adds", True, f"`training.trainer_type: {config.trainer}`")
    return found


def _entailed(config: OumiConfig, fields: Fields) -> Iterable[Entailed | None]:
    from memlint.formats.oumi.entailed import find_entailed  # for plans

    def read(document: Document) -> Fields:
        return _read(OumiConfig(root(document), KEYS, config.context)).fields

    return find_entailed(config.section.document, fields, read)


def _own_sections(config: OumiConfig, read: trainer.ReadFile) -> tuple[dict[str, Any], dict[str, tuple[str, Path]]]:
    """The file's own keys for rules, and those of engines' files beside it: what Oumi writes of its sections stands
    nowhere."""
    own = config.section.document.path
    beside = {name: at for name, at in read.places.items() if at[0] != own}
    raw = {"config": config.section.value, **{name: read.raw[name] for name in beside}}
    return raw, {"config": (own, ()), **beside}


def _unmodelled(config: OumiConfig) -> Iterator[str]:
    """The parts of a step that no reader knows: verl's trainer, whose settings Oumi makes of its own and of a file
    (core/trainers/verl_grpo_trainer.py); FSDP in Oumi's own loop (core/trainers/oumi_trainer.py)."""
    if config.trainer == "VERL_GRPO":
        yield "verl's trainer, started by Oumi"
    elif config.trainer == "TRL_GOLD":
        yield "logits of a teacher with another vocabulary (GOLD)"
    elif config.trainer == "OUMI" and config.shards:
        yield "FSDP in Oumi's own training loop"
