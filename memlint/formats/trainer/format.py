"""The Hugging Face Trainer format: YAML or JSON for HfArgumentParser or TrlParser.

TrainingArguments, TRL's configurations, PEFT and model keys beside a script's own. Read in transformers 5.23.0 and
4.57.6, trl 1.16.0, 0.29.0, 0.26.2, 0.19.1 and 0.15.2, peft 0.21.2, accelerate 1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.trainer.edits as written
import memlint.formats.trainer.run as reader
from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.trainer.recognise import NAME, SCHEMA, recognise
from memlint.run import Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise", "stands"]

DIALECT = "yaml11"


def parse(document: Document, context: Context) -> Parsed:
    """The file as one run. Never raises on any value."""
    return reader.parse(document, context)


# Rules about what transformers or TRL make of a key that is there, or of one that is not.
_OF_PARSERS = frozenset({"EVA004", "PEF018", "PEF019", "PEF020"})


def stands(rule: str, document: Document, context: Context) -> bool:
    """Whether what `rule` found stands: a script that loads YAML itself gives the arguments that it likes."""
    return rule not in _OF_PARSERS or document.syntax == "json" or not context.own_reader()


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` in this file or the DeepSpeed file behind it; None where one cannot be said."""
    return written.trainer_edits(parsed, run, changes)
