"""The slime format: commands of its `train.py` and `train_async.py`, read in slime 0.1.0 to 0.3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.megatron.engine import read_unmodelled
from memlint.formats.megatron_options import put_options
from memlint.formats.slime import behaviour
from memlint.formats.slime.backend import read_forks
from memlint.formats.slime.config import SOURCE, SlimeConfig
from memlint.formats.slime.issues import slime_issues
from memlint.formats.slime.keys import KEYS
from memlint.formats.slime.recognise import NAME, SCHEMA, recognise
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "yaml12"


def parse(document: Document, context: Context) -> Parsed:
    """The command as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = SlimeConfig(root(document), KEYS, context)
    fields = Fields()
    fields.put("stack.framework", NAME, Origin("inferred", detail="the program that the command starts"))
    apply_hardware(fields, context, unused=OTHER_TRAINERS)
    fields.behave(*behaviour.ALWAYS)
    KEYS.read(fields, config, config)
    if not config.is_fsdp:
        read_unmodelled(fields, config)
        _put_options(fields, config)
    read_forks(fields, config)
    read_start(fields, document, KEYS)
    run = fields.run(NAME, document.path)
    issues = (*slime_issues(fields, config), *fields.issues)
    return Parsed(NAME, (run,), issues, (document,), {"config": document.value}, {"config": (document.path, ())})


_RECOMPUTATION = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def _put_options(fields: Fields, config: SlimeConfig) -> None:
    recomputation = "" if fields.get("checkpointing.mode") == "full" else _RECOMPUTATION
    sequence = "" if config.gives("sequence_parallel") else "--sequence-parallel"
    put_options(fields, _flag, recomputation, sequence, SOURCE)


def _flag(name: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    return f"{flag} --use-precision-aware-optimizer" if name == "optimizer_cpu_offload" else flag


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """None: there is a least figure alone, so that no change is known to fit."""
    return None
