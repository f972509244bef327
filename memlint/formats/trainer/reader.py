"""Who reads a Trainer file: HfArgumentParser or TrlParser, or a script that makes what it likes of the keys.

Where a script reads the file by itself, its keys and values are the script's: an unknown key is none, `eval_steps` may
well do something, and the dtype of the weights is whatever the script passes to `from_pretrained`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from memlint.formats.base import ConfigReader, Context, Issue
from memlint.formats.fields import Fields, as_bool, root
from memlint.formats.own_reader import TWO_FILE_RULES, who_reads
from memlint.formats.schema.suggest import slip_of
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer.method import has_words_of_lora_config
from memlint.formats.trainer.own_engine import is_loop
from memlint.formats.trainer.recognise import OPEN_INSTRUCT, SCHEMA
from memlint.run import Reading
from memlint.source.document import NOT_READ, Document, Start

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


# Rules about what TRL's own scripts make of a key; a Python script says itself what it does.
_TRL_SCRIPT_RULES = frozenset({"PEF018", "PEF019", "PEF020"})


# Rules about what TRL's ModelConfig makes of LoRA's targets.
_MODEL_CONFIG_RULES = frozenset({"PEF004", "PEF025"})
_TARGETS = ("lora_target_modules", "target_modules", "lora_target")  # one key's spellings, as the key table has them


# Rules about what the Trainer, TRL and accelerate make of their arguments: a loop of a program's own has none of them,
# and DeepSpeed itself leaves `auto` out (deepspeed 0.19.8 runtime/config_utils.py:58).
_TRAINER_RULES = (
    *("EVA", "TRN", "TRL", "DSP001", "DSP002", "DSP003", "DSP004", "DSP011", "DSP016", "ACC009", "ACC011"),
    *("FSD009", "FSD013", "FSD014", "PAR005", "PAR013", "OFF003", "OPT004", "OPT009", "OPT011", "OPT012", "SAV"),
)
# Rules about arguments together: a file that is not here may hold those that a command lacks.
_RULES_ABOUT_SEVERAL_ARGUMENTS = ("EVA", "SAV", "TRL", "TRN")
# Rules about a key without effect: that key, and the one that decides.
_WITHOUT_EFFECT = {
    "TRN003": ("num_train_epochs", "max_steps"),
    "TRN018": ("save_steps", "save_strategy"),
    "EVA004": ("eval_steps", "eval_strategy"),
    "TRN005": ("warmup_ratio", "warmup_steps"),
}
# Rules about values that a command gives itself: those of its program are the program's.
_ALL_KEYS_WRITTEN = {"PEF005": _TARGETS, "TRN005": _WITHOUT_EFFECT["TRN005"]}
# The same of rules about two keys that are said where one of them is written.
_ONE_KEY_WRITTEN = {
    "TRL029": ("max_prompt_length", "rpo_alpha"),
    "TRN004": ("warmup_ratio", "warmup_steps"),
}


# Rules about what TrainingArguments refuses when it is made (5.23.0 training_args.py, __post_init__): what is assigned
# to an argument afterwards it does not see.
_CONSTRUCTOR_RULES = frozenset(
    {
        *("TRN001", "TRN002", "TRN007", "TRN009", "TRN012", "TRN013", "TRN014", "TRN015", "TRN019"),
        *("PRE008", "PRE011"),
    }
)
# What a script writes right before a value that is the whole of an argument, a constant or a default.
_BEFORE_A_VALUE = ("=", ":", "(", ",", "[")
_BEFORE_A_DEFAULT = ("default=", "default =")


# Arguments that nobody writes: those that transformers 4 and 5 have, and those of transformers 4.
_NEVER_WRITTEN = (
    frozenset({"logging_nan_inf_filter", "log_on_each_node", "log_level_replica", "ignore_data_skip"}),
    frozenset({"logging_nan_inf_filter", "past_index", "tpu_metrics_debug", "fp16_opt_level"}),
)


_DTYPES = {"dtype", "torch_dtype"}


def is_record(value: Any) -> bool:
    """Whether a run wrote this file to record its arguments: all keys are there, and no parser reads it again."""
    return isinstance(value, dict) and any(value.keys() >= names for names in _NEVER_WRITTEN)


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether `rule` says nothing of this document."""
    start = document.start
    if is_loop(start) and rule.startswith(_TRAINER_RULES):
        return True
    if start is not None and rule.startswith(_RULES_ABOUT_SEVERAL_ARGUMENTS) and _lacks_a_file(start):
        return True
    if rule in _CONSTRUCTOR_RULES and start is not None and start.accepted.set_later:
        return True
    if rule in TWO_FILE_RULES and _has_own_trainer(document, context):
        return True
    if rule == "TRL011" and start is not None and start.program.writes_groups and "trl" not in context.versions:
        return True  # its batch holds prompts, and a TRL before 0.19 compares nothing
    if rule == "ACC009" and start is not None and _is_said_by_options(start.machine.launch_file):
        return True
    if rule == "PRE003" and document.syntax == "python" and "Accelerator(" in document.text:
        return True  # `accelerate launch --mixed_precision` says it
    if rule == "PRE003" and _may_be_launched_otherwise(document, context) and _launch_file_says(context, document):
        return True  # and a file of accelerate's
    if rule == "MEM006" and not document.value.keys() & _DTYPES and _is_read_by_script(document, context):
        return True  # the script may load the weights in half as many bytes, and train some of them
    if rule in _WITHOUT_EFFECT and is_record(document.value):
        return True  # all arguments are there, whatever their effect
    if start is not None and start.program.is_foreign and rule in _WITHOUT_EFFECT:
        decides = _WITHOUT_EFFECT[rule][1]
        if decides not in document.value or is_brought(document, (decides,)):
            return True  # a program that is not there may have a default of its own
    if document.syntax == "python" and rule in _WITHOUT_EFFECT:
        is_commanded = start is not None and start.values.is_commanded
        return is_commanded or any(_is_meant(document, key) for key in _WITHOUT_EFFECT[rule])
    if rule == "ACC011" and start is not None and start.accepted.is_own and not _is_written(document, ("bf16", "fp16")):
        return True  # defaults of a program's own parser, which may ask accelerate for its precision before
    if rule == "TRL029" and start is not None and start.accepted.defined & {"max_prompt_length", "rpo_alpha"}:
        return True  # flags of the program's own
    if rule == "TRL019" and _computes_loss(document, context):
        return True
    if document.syntax == "shell" and _is_said_elsewhere(rule, document):
        return True
    if rule in _TRL_SCRIPT_RULES:
        if document.syntax == "python":
            return True
        return reader_of(document, context).makes_adapter if start is None else start.accepted.makes_adapter
    return rule in _MODEL_CONFIG_RULES and _has_own_targets(rule, document, context)


def _is_read_by_script(document: Document, context: Context) -> bool:
    return document.start is None and reader_of(document, context).kind == "script"


def _may_be_launched_otherwise(document: Document, context: Context) -> bool:
    """Whether a launch file of the repository may be in force that no command here names: for a loop of the program's
    own, or a config that nothing is known to launch."""
    if document.start is not None:
        return is_loop(document.start)
    return _is_read_by_script(document, context) or not context.repository.launch_commands(document.path)


def _launch_file_says(context: Context, document: Document) -> bool:
    """Whether a launch file of the repository says in which precision programs compute."""
    found = (context.read(name, document.path) for name in context.repository.launch_files(document.path))
    values = (one.value for one in found if isinstance(one, Document))
    return any(isinstance(value, dict) and value.get("mixed_precision") in ("bf16", "fp16") for value in values)


def _computes_loss(document: Document, context: Context) -> bool:
    """Whether the repository's own trainer computes the loss: its code asks for that word."""
    loss = document.value.get("loss_type", "sigmoid") if isinstance(document.value, dict) else None
    return isinstance(loss, str) and ("loss_type", loss) in context.repository.own_words()


def _has_own_trainer(document: Document, context: Context) -> bool:
    """Whether the script that reads the file, or the one that a command names, trains with a class of its own."""
    start = document.start
    if start is not None and start.program.has_own_trainer:
        return True
    file = document if start is None else start.values.lone_config
    return isinstance(file, Document) and reader_of(file, context).has_own_trainer


def _is_said_by_options(launch_file: Any) -> bool:
    """Whether options of `accelerate launch` say all that its launch file would say of DeepSpeed and of precision. Of
    options accelerate keeps no list to hold against a DeepSpeed file (accelerate 1.15 commands/launch.py,
    deepspeed_fields_from_accelerate_config)."""
    if not isinstance(launch_file, Document) or launch_file.start is None or not isinstance(launch_file.value, dict):
        return False
    section = launch_file.value.get("deepspeed_config")
    said = {*(section if isinstance(section, dict) else ()), *({"mixed_precision"} & launch_file.value.keys())}
    return said <= launch_file.start.accepted.defined


def is_brought(document: Document, keys: Collection[str]) -> bool:
    """Whether a command has one of the keys from elsewhere: the program sets it, or a file that the command names."""
    whole = document.places[()].value
    places = (document.places.get((key,)) for key in keys if key in document.value)
    return any(place is None or place.value == whole for place in places)


def _is_written(document: Document, keys: Collection[str]) -> bool:
    """Whether the command itself gives one of the keys a true value."""
    return any(as_bool(document.value.get(key)) and not is_brought(document, (key,)) for key in keys)


def _is_said_elsewhere(rule: str, document: Document) -> bool:
    """Whether the keys of a rule stand in the program, or in a file that the command names: it is said there."""
    if is_brought(document, _ALL_KEYS_WRITTEN.get(rule, ())):
        return True
    if is_brought(document, _WITHOUT_EFFECT.get(rule, ())[:1]):
        return True  # the key without effect is a default of the program's, for other starts
    keys = [key for key in _ONE_KEY_WRITTEN.get(rule, ()) if key in document.value]
    return bool(keys) and all(is_brought(document, (key,)) for key in keys)


def _lacks_a_file(start: Start) -> bool:
    """Whether a command names a file with arguments that cannot be read."""
    return any(NOT_READ in reason for reason in start.values.unknown.values())


def _is_meant(document: Document, key: str) -> bool:
    """Whether a script knows what it does with a key: it chooses or computes the value (`"steps" if n > 0 else "no"`,
    `max(1, n)`), has it as an option whose default is for other starts, or reads it again (`self.args.eval_steps`)."""
    if document.start is not None and key in document.start.accepted.read_back:
        return True
    here = document.places.get((key,))
    if here is None or here.value == document.places[()].value:
        return key in document.value
    before = document.text[max(0, here.value.start - 80) : here.value.start].rstrip(" \t\r\n\"'")
    return not before.endswith(_BEFORE_A_VALUE) or before.endswith(_BEFORE_A_DEFAULT)


def _has_own_targets(rule: str, document: Document, context: Context) -> bool:
    """Whether a program or a class of the repository in place of TRL's takes the targets: one in a list stays a list
    there, and a word may stand for several (alignment-handbook's forks look the linear layers up for `all`)."""
    value = document.value if isinstance(document.value, dict) else {}
    key = next((name for name in _TARGETS if name in value), "")
    if rule == "PEF025" and document.syntax == "python" and isinstance(value.get(key), list):
        return True  # a script hands its list to LoraConfig, which keeps it
    start = document.start
    if rule == "PEF025" and start is not None and start.accepted.makes_adapter:
        return True
    is_asked = bool(key) and (rule == "PEF025" or isinstance(value[key], str))
    is_own = start is not None and key in start.accepted.defined
    return is_asked and (is_own or bool(context.repository.field_annotations(key)))


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
