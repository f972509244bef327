"""The AutoTrain format: its parameters as the Trainer's and TRL's arguments, then what AutoTrain itself does. Read in
autotrain-advanced 0.8.36."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import memlint.formats.trainer.format as trainer
from memlint.findings import Edit
from memlint.formats.autotrain.behaviour import ALWAYS
from memlint.formats.autotrain.config import AutotrainConfig
from memlint.formats.autotrain.issues import autotrain_issues
from memlint.formats.autotrain.keys import KEYS
from memlint.formats.autotrain.recognise import NAME, SCHEMA, recognise
from memlint.formats.autotrain.releases import with_releases
from memlint.formats.autotrain.translate import as_trainer, moved_back, own_path
from memlint.formats.base import Context, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, root
from memlint.formats.trainer_names import name_own_keys
from memlint.run import Entailed, Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "yaml11"


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = AutotrainConfig(root(document), KEYS, with_releases(context))
    found = _read(config)
    fields = found.fields
    name_own_keys(fields, document.path, lambda path: own_path(config, path) or path)
    put_entailed(fields, partial(_entailed, config), "autotrain-advanced 0.8.36 trainers/clm")
    run = fields.run(NAME, document.path, found.related, "train")
    of_trainer = (moved_back(config, one) for one in fields.issues)
    issues = (*autotrain_issues(config), *(one for one in of_trainer if one is not None))
    raw, places = {"config": config.section.value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), issues, (document, *found.companions), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file; None where AutoTrain has no parameter for one of them."""
    from memlint.formats.autotrain.edits import autotrain_edits  # writes keys back: for fixes

    return autotrain_edits(parsed, run, changes)


def _read(config: AutotrainConfig) -> trainer.ReadFile:
    """What the Trainer's reader makes of the file, and what AutoTrain itself decides over it."""
    found = trainer.read(as_trainer(config), config.context)
    found.fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    found.fields.behave(*ALWAYS)
    KEYS.read(found.fields, config, config)
    _casts(found.fields, config)
    return found


def _entailed(config: AutotrainConfig, fields: Fields) -> Iterable[Entailed | None]:
    from memlint.formats.autotrain.entailed import find_entailed  # for plans

    def read(document: Document) -> Fields:
        return _read(AutotrainConfig(root(document), KEYS, config.context)).fields

    return find_entailed(config.section.document, fields, read, KEYS)


def _casts(fields: Fields, config: AutotrainConfig) -> None:
    """The default trainer casts head and embeddings to bf16, and norms to fp32, whatever trains."""
    if not config.is_of_trl and config.bits == 16 and config.autocast == "bf16":
        reason = "its head and embeddings in bf16, other weights in fp32"
        fields.infer("stack.unmodelled", reason, "autotrain-advanced 0.8.36 trainers/clm/train_clm_default.py")
        fields.infer("stack.unmodelled_adds", False, "autotrain-advanced 0.8.36 trainers/clm/train_clm_default.py")
