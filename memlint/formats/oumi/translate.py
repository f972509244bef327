"""A training config of Oumi as the arguments of transformers and TRL, with every value at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.oumi.config import OumiConfig
from memlint.formats.oumi.engine import OFFLOADS, deepspeed_of, fsdp_of, zero_keys
from memlint.formats.oumi.keys import KEYS, PRECISION
from memlint.formats.section_keys import path_of
from memlint.formats.trainer_names import entries_of_arguments
from memlint.source.document import Document, Path, Start, StartedProgram
from memlint.source.layout import Entry, Places, find

_ENTRY = "oumi train"
_TRAINING = "training"
_PASSED_ON = "trainer_kwargs"


def as_trainer(config: OumiConfig) -> Document:
    """The document under the Trainer's names, with Oumi's defaults."""
    document = config.section.document
    values = dict(_values(config))
    return document._replace(value=values, places=_places(config, values), start=_started(config))


def _started(config: OumiConfig) -> Start:
    """Oumi's program: it loads the model, prepares one in few bits, and gives its trainer the whole."""
    program = StartedProgram(
        _ENTRY,
        framework="trl" if config.is_of_trl else "transformers",
        task=config.stage,
        loads_model=True,
        quantized_preparation="peft" if config.quantises else "",
        frozen=tuple((name, False) for name in config.frozen_layers),
        takes_texts_alone=not config.has_images,
    )
    return Start("oumi", "", program)


def _values(config: OumiConfig) -> Iterator[tuple[str, Any]]:
    """The arguments, each default before what the file says, and what the file passes on last."""
    for row in KEYS:
        if row.passes and (row.when is None or row.when(config)):
            value = config.get(row.name) if config.written(row.name) is not None else row.default
            if value is not None:
                yield row.passes, value
    if config.dtype:
        yield "dtype", config.dtype
    yield "bf16", config.autocast == "bf16"
    yield "fp16", config.autocast == "fp16"
    if config.quantises:
        bits = config.get("peft.q_lora_bits")
        yield from (("load_in_4bit", bits == 4), ("load_in_8bit", bits == 8))
    yield from _engine(config)
    yield from config.passed_on.items()


def _engine(config: OumiConfig) -> Iterator[tuple[str, Any]]:
    if config.flag("deepspeed.enable_deepspeed"):
        yield "deepspeed", config.text("deepspeed.deepspeed_config_path") or dict(deepspeed_of(config))
    elif config.shards:
        yield from fsdp_of(config).items()
        yield "gradient_checkpointing", False


def _places(config: OumiConfig, values: Mapping[str, Any]) -> Any:
    """The places of the values under their new names; what Oumi works out has the place of the key that decides it."""
    places = config.section.document.places
    if not isinstance(places, Places):
        return places
    below = entries_of_arguments(places.root, _origins(config), values)
    section = find(places.root, ("deepspeed",))
    if section is not None and isinstance(values.get("deepspeed"), dict):
        below["deepspeed"] = (*section[:5], _deepspeed_places(section, values["deepspeed"]))
    return places.with_keys(below)


def _origins(config: OumiConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((row.passes, path_of(row.name)) for row in KEYS if row.passes)
    yield from ((name, path_of(PRECISION)) for name in ("bf16", "fp16"))
    yield from ((name, ("peft", "q_lora")) for name in ("load_in_4bit", "load_in_8bit"))
    yield "deepspeed", ("deepspeed", "deepspeed_config_path")
    yield from (("fsdp", ("fsdp", "enable_fsdp")), ("fsdp_config", ("fsdp",)))
    yield from ((name, (_TRAINING, _PASSED_ON, name)) for name in config.passed_on)


def own_path(config: OumiConfig, path: Path) -> Path:
    """The key of Oumi's file that a key of the Trainer's comes from; () where Oumi itself says it."""
    if not path:
        return ()
    first, *rest = path
    if first == "deepspeed" and rest:
        return _own_path_of_deepspeed(tuple(rest))
    own = dict(_origins(config)).get(str(first))
    return () if own is None else own if own[0] == "fsdp" else (*own, *rest)


def _own_path_of_deepspeed(path: Path) -> Path:
    """`zero_optimization.stage` is `deepspeed.zero_stage`; its other keys stand beside that."""
    inner = path[1:] if path[0] == "zero_optimization" else path
    return ("deepspeed", *(("zero_stage",) if inner == ("stage",) else inner))


def moved_back(config: OumiConfig, issue: Issue) -> Issue | None:
    """An issue of the Trainer's reader at the key of Oumi that it is about; None for one about a key that Oumi writes
    by itself in DeepSpeed's or accelerate's configuration."""
    if issue.path != config.section.document.path or not issue.pointer:
        return issue
    own = own_path(config, issue.pointer)
    return issue._replace(pointer=own, edit=None) if own and len(issue.pointer) == 1 else None


def _deepspeed_places(section: Entry, value: Mapping[str, Any]) -> dict[Any, Entry]:
    """The places of the keys of DeepSpeed's configuration, which stand under other sections there."""
    given = section[5] if isinstance(section[5], dict) else {}
    zero: dict[Any, Entry] = dict(_moved(given, zero_keys(value["zero_optimization"]["stage"])))
    zero |= dict(_moved(given, OFFLOADS))
    if "zero_stage" in given:
        zero["stage"] = given["zero_stage"]
    found = dict(_moved(given, value))
    return {**found, "zero_optimization": (*section[:5], zero)}


def _moved(given: Mapping[Any, Entry], names: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    return ((name, given[name]) for name in names if name in given)
