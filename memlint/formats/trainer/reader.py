"""Who reads a Trainer file: HfArgumentParser or TrlParser, or a script that makes what it likes of the keys.

Where a script reads the file by itself, its keys and values are the script's: an unknown key is none, `eval_steps` may
well do something, and the dtype of the weights is whatever the script passes to `from_pretrained`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from memlint.formats.base import ConfigReader, Context, Issue
from memlint.formats.fields import Fields, root
from memlint.formats.own_reader import who_reads
from memlint.formats.schema.suggest import slip_of
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer.method import has_words_of_lora_config
from memlint.formats.trainer.recognise import OPEN_INSTRUCT, SCHEMA
from memlint.run import Reading
from memlint.source.document import Document

SEVERAL = 3  # keys that no argument class has: one is a slip, two may be
_MOST_NAMED = 3
_RENAMED = frozenset({"evaluation_strategy"})  # gone for so long that the schema does not list it
REASON = "dtype of the weights not known"
# open-instruct's options that other scripts have as well.
_COMMON = frozenset({"use_flash_attn", "add_bos", "use_slow_tokenizer"})


def reader_of(document: Document, context: Context) -> ConfigReader:
    """Who reads the file, as the repository shows it, else as its keys do; `kind` "" where neither tells."""
    keys = _keys(document)
    found = context.repository.config_reader(document.path, keys)
    # HfArgumentParser reads JSON with keys of one's own too
    if found.kind == "script" or (found.kind and document.syntax != "json"):
        return found
    foreign = foreign_keys(keys, context)
    if (OPEN_INSTRUCT - _COMMON) & keys or len(foreign) >= SEVERAL or _sections(document, foreign):
        return ConfigReader("script")
    if has_words_of_lora_config(keys) and "r" in foreign:
        return ConfigReader("script")
    return ConfigReader()


def _sections(document: Document, foreign: Collection[str]) -> list[str]:
    """The foreign keys with keys of their own below them. HfArgumentParser and TrlParser take flat files (transformers
    5.23.0 hf_argparser.py, parse_dict; trl 1.16.0 scripts/utils.py, set_defaults_with_config)."""
    return [key for key in sorted(foreign) if isinstance(document.value[key], dict) and document.value[key]]


def completing_script(document: Document, context: Context) -> str:
    """The script that makes the adapter of the file's model in its own code; "" where the file says what trains."""
    if document.start is not None:
        return ""
    found = reader_of(document, context)
    return found.path if found.kind == "framework" and found.makes_adapter else ""


def unjudged(document: Document, context: Context) -> Issue | None:
    """The note on a file that a script reads by itself; None for a file that a framework's parser reads."""
    if document.start is not None:
        return None  # what a command starts defines its own flags, which were asked
    found = reader_of(document, context)
    if found.kind != "script":
        return None
    foreign = sorted(foreign_keys(_keys(document), context))
    named = ", ".join(f"`{key}`" for key in foreign[:_MOST_NAMED])
    if found.path:
        who = who_reads(found)
    elif len(foreign) >= SEVERAL:
        who = (
            f"{named} belong to no argument class of transformers, TRL or PEFT, so a script of its own reads this file"
        )
    elif sections := _sections(document, foreign):
        who = (
            f"`{sections[0]}` has keys below it, which no argument class takes, so a script of its own reads this file"
        )
    elif has_words_of_lora_config(_keys(document)):
        who = "`r` is a word of peft's LoraConfig and of no argument class, so a script of its own reads this file"
    else:
        who = "open-instruct's own parser reads this file"
    message = f"{who}: its keys are not judged, and the dtype of its weights is not presumed"
    return Issue("own-reader", message, document.path, severity="info")


# Arguments that nobody writes: those that transformers 4 and 5 have, and those of transformers 4.
_NEVER_WRITTEN = (
    frozenset({"logging_nan_inf_filter", "log_on_each_node", "log_level_replica", "ignore_data_skip"}),
    frozenset({"logging_nan_inf_filter", "past_index", "tpu_metrics_debug", "fp16_opt_level"}),
)


def is_record(value: Any) -> bool:
    """Whether a run wrote this file to record its arguments: all keys are there, and no parser reads it again."""
    return isinstance(value, dict) and any(value.keys() >= names for names in _NEVER_WRITTEN)


def is_brought(document: Document, keys: Collection[str]) -> bool:
    """Whether a command has one of the keys from elsewhere: the program sets it, or a file that the command names."""
    whole = document.places[()].value
    places = (document.places.get((key,)) for key in keys if key in document.value)
    return any(place is None or place.value == whole for place in places)


def foreign_keys(keys: frozenset[str], context: Context) -> frozenset[str]:
    """The keys that belong to no known argument class, are no slip of one that does, and no dataclass of a
    parser here declares."""
    known = compiled_schema(SCHEMA).schema["properties"]
    unknown = [key for key in keys - _RENAMED if key not in known and not slip_of(key, known, keys)]
    parses = bool(context.repository.argument_parsers())  # else no dataclass becomes a parser's arguments
    return frozenset(key for key in unknown if not (context.repository.field_annotations(key) and parses))


_BATCH = re.compile(r"(?:per_(?:gpu|device)_)?(?:train_|training_)?(?:micro_|mini_)?batch(?:_?size)?")


def read_own_batch(fields: Fields, document: Document, context: Context) -> None:
    """No batch size where a script reads the file by itself and the file has one in the script's own words; nor is it
    known whether that script checkpoints where the file does not say so."""
    origin = fields.origins.get("batch.micro_batch_size")
    own = sorted(filter(_BATCH.fullmatch, _keys(document)))
    if document.start is not None or not own or (origin is not None and origin.kind != "default"):
        return
    if reader_of(document, context).kind == "script":
        fields.unknown("batch.micro_batch_size", f"`{own[0]}` is a key of the script that reads the file")
        if getattr(fields.origins.get("checkpointing.mode"), "kind", "default") == "default":
            fields.unknown("checkpointing.mode", "the script that reads the file says it")


def read_own_method(fields: Fields, document: Document, context: Context) -> None:
    """What trains is not known where a script that makes adapters reads the file by itself, and the file does not
    say."""
    origin = fields.origins.get("method.kind")
    if document.start is not None or (origin is not None and origin.kind != "default"):
        return
    found = reader_of(document, context)
    if found.kind != "script" or not found.makes_adapter:
        return
    fields.unknown("method.kind", f"{found.path} reads the file, and makes adapters of which the file says nothing")
    for name, what in (("model.weights_dtype", "dtype of the weights"), ("precision.compute", "precision")):
        if getattr(fields.origins.get(name), "kind", "default") == "default":
            fields.unknown(name, f"{found.path} decides about the {what}")


def read_own_rank(fields: Fields, document: Document) -> None:
    """The rank by LoraConfig's own word, in a file whose keys a script hands to it. Of a command, `--r` may be any."""
    value = document.value if document.start is None and isinstance(document.value, dict) else {}
    rank = value.get("r")
    if has_words_of_lora_config(value) and type(rank) is int and fields.get("method.kind", "") == "lora":
        fields.put("method.rank", rank, root(document).origin("r"))


def read_own_freezing(fields: Fields, document: Document, context: Context) -> None:
    """What trains is not known where an argument class of the repository has a key that says what is frozen."""
    value = document.value if document.start is None and isinstance(document.value, dict) else {}
    own = sorted(key for key in value if isinstance(key, str) and value[key] and _FREEZES.match(key))
    found = next((key for key in own if context.repository.field_annotations(key)), None)
    if found is not None:
        fields.infer("stack.unmodelled", "the freezing of parameters by the program itself", f"`{found}`")
        fields.infer("stack.unmodelled_adds", False, f"`{found}`")


def read_dtype_doubt(fields: Fields, document: Document, context: Context) -> Iterator[Reading]:
    """The other dtype that the weights may have, where a script reads the file and the file names none."""
    origin = fields.origins.get("model.weights_dtype")
    quantised = fields.get("model.quantization.method", "none") != "none"
    if document.start is not None or context.gpu is None or origin is None or origin.kind != "default" or quantised:
        return
    presumed = fields.get("model.weights_dtype")
    if presumed not in _OTHER or reader_of(document, context).kind != "script":
        return
    other = _OTHER[presumed]
    changes = [("model.weights_dtype", other)]
    changes += [("precision.trainable_dtype", other)] if fields.get("precision.trainable_dtype") == presumed else []
    changes += [("precision.compute", other)] if not fields.get("precision.autocast") else []
    given = (("model.weights_dtype", presumed),)
    yield Reading(REASON, f"with {other} weights", f"with {presumed} weights", tuple(changes), given)


_FREEZES = re.compile(r"(?:un)?freeze_|train_only_|only_train_")
_OTHER = {"float32": "bfloat16", "bfloat16": "float32", "float16": "float32"}


def _keys(document: Document) -> frozenset[str]:
    value = document.value if isinstance(document.value, dict) else {}
    return frozenset(key for key in value if isinstance(key, str))
