"""Checks the arguments that the setting `keys` names: whether the class has them, and whether the values are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.trainer.argument_classes import own_arguments
from memlint.formats.trainer.argument_names import MODEL_CONFIG, OF_TRL, TRAINING_ARGUMENTS
from memlint.formats.trainer.keys import KEYS
from memlint.source.document import Path

_SCHEMA = "trainer.json"
# Arguments that any entry may name besides those of its class: those of LoraConfig, of the model's loader, of Unsloth,
# and the length to which a script tokenizes.
_OF_ANY = frozenset(
    {
        *("max_length", "max_seq_length", "use_unsloth", "use_flash_attention_2", "bnb_4bit_use_double_quant"),
        *("bnb_4bit_compute_dtype", "lora_bias", "lora_exclude_modules", "packing"),
    }
)


def wrong_arguments(entry: Mapping[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    """(pointer, message, whether the mistake is the key itself) for each mistake in the arguments of one entry."""
    known = arguments_of(entry["class"])
    for name, declared in entry["arguments"].items():
        if name not in known:
            yield ("arguments", name), _unknown(name, entry["class"], known), True
        elif isinstance(declared, dict) and "unknown" not in declared:
            yield from _wrong_value(name, declared)


def arguments_of(name: str) -> frozenset[str]:
    """The arguments that `keys` may name for a class: its own, the model's, and their names in other releases."""
    properties = compiled_schema(_SCHEMA).schema["properties"]
    gone = {key for key, schema in properties.items() if "x-memlint-removed-in" in schema}
    known = TRAINING_ARGUMENTS | own_arguments(name) | MODEL_CONFIG | _OF_ANY | gone
    return known.union(*(names for names in KEYS.spellings.values() if known.intersection(names)))


def _unknown(name: str, class_name: str, known: frozenset[str]) -> str:
    of = "a training loop" if class_name == "loop" else class_name
    classes = sorted(other for other in OF_TRL if name in own_arguments(other))
    if classes:
        return f"{of} has no argument `{name}`; {', '.join(classes[:3])} {'has' if len(classes) == 1 else 'have'} one"
    guess = nearest(name, known)
    hint = f": did you mean `{guess}`?" if guess else ""
    return f"neither {of} nor the model has an argument `{name}`{hint}"


def _wrong_value(name: str, declared: Mapping[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    where = "value" if "value" in declared else "default"
    value = declared.get(where)
    if value is None:
        return
    for issue in schema_issues({name: value}, "", _SCHEMA):
        if issue.code in ("wrong-type", "bad-value"):
            yield ("arguments", name, where), issue.message, False
