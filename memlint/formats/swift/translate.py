"""A document of ms-swift as the Trainer's arguments, with every value at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.base import MissingFile
from memlint.formats.fields import Fields
from memlint.formats.swift.behaviour import fsdp_preset, shipped_deepspeed
from memlint.formats.swift.config import SwiftConfig
from memlint.formats.swift.keys import KEYS
from memlint.source.document import Document, Start
from memlint.source.layout import Entry, Places

_BETAS = {"grpo": 0.04, "simpo": 2.0}  # arguments/rlhf_args.py, _init_grpo and _init_simpo
MODELLED_TUNERS = ("lora", "full", "dora")
# Keys that mean something else to ms-swift than to the Trainer's table, or that it reads by itself.
_OWN = frozenset(
    {"rlhf_type", "quant_method", "padding_free", "packing_length", "max_length", "max_pixels", "ENV", "sleep_level"}
)


def as_trainer(config: SwiftConfig) -> Document:
    """The document under the Trainer's names, with ms-swift's defaults."""
    document = config.section.document
    names = {one.spelling: _passed(one.name) for one in _given(config)}
    values = dict(_values(config))
    start = document.start or Start("swift", "")
    task = config.stage
    moved = start._replace(
        program=start.program._replace(framework="swift", task=task),
        values=start.values._replace(unknown=_renamed_paths(start.values.unknown, names)),
    )
    return document._replace(value=values, places=_renamed(document, names), start=moved)


class _Given:
    """A key of the file: its spelling, and the name of its row ("" without one)."""

    __slots__ = ("name", "spelling")

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling
        self.name = KEYS[spelling].name if spelling in KEYS else ""


def _given(config: SwiftConfig) -> Iterator[_Given]:
    yield from (_Given(key) for key in config.section.value if isinstance(key, str))


def _passed(name: str) -> str:
    """The Trainer's argument for a row; "" where it has none."""
    return KEYS[name].passes if name else ""


def _values(config: SwiftConfig) -> Iterator[tuple[str, Any]]:
    """The Trainer's arguments: ms-swift's defaults first, then what the file says."""
    section = config.section.value
    for row in KEYS:
        if row.passes and row.default is not None and (row.when is None or row.when(config)):
            yield row.passes, row.default
    yield "use_peft", _is_adapter(config)
    yield from _precision(config)
    if config.stage in _BETAS:
        yield "beta", _BETAS[config.stage]
    length = section.get("max_length")
    if length is not None:
        yield ("max_prompt_length" if config.generates else "max_length"), length
    for key, value in section.items():
        if key in _OWN or value is None:
            continue
        if key == "deepspeed" and isinstance(value, str) and shipped_deepspeed(value):
            yield key, shipped_deepspeed(value)
        elif key == "fsdp" and (options := named_fsdp(config)) is not None:
            yield from options.items()
        elif key in KEYS:
            if config.written(KEYS[key].name) == key:  # of two spellings the newer one
                yield from _argument(config, key, value)
        else:
            yield key, value
    preset = named_fsdp(config)
    if preset and preset["fsdp_config"].get("activation_checkpointing"):
        yield "gradient_checkpointing", False  # arguments/sft_args.py, _check_fsdp2_compatibility


def fsdp_file(config: SwiftConfig) -> str:
    """The file of JSON that `fsdp` names (utils/utils.py:412, json_parse_to_dict); "" where it names none."""
    value = config.section.value.get("fsdp")
    return value if isinstance(value, str) and value.endswith(".json") else ""


def named_fsdp(config: SwiftConfig) -> Mapping[str, Any] | None:
    """The words of FSDP and its section that `fsdp` or the file that it names stands for; None where nobody knows."""
    name = fsdp_file(config)
    if not name:
        return fsdp_preset(config.section.value.get("fsdp"))
    found = config.context.read(name, config.section.document.path)
    return None if isinstance(found, MissingFile) else fsdp_preset(found.value)


def _argument(config: SwiftConfig, key: str, value: Any) -> Iterator[tuple[str, Any]]:
    row = KEYS[key]
    if row.name == "tuner_type":
        return
    if row.name == "attn_impl":
        yield row.passes, (row.values or {}).get(str(value).lower(), value)
    elif row.passes:
        yield row.passes, value
    elif row.name == "gradient_accumulation_steps":
        yield row.name, value


def _is_adapter(config: SwiftConfig) -> bool:
    """Whether an adapter trains: `lora` unless said, and `full` of `megatron sft` (megatron_args.py:469). A file for
    Ray says it in the section of a role, so that a file without it is bounded by an adapter."""
    start = config.section.document.start
    default = "full" if start is not None and start.launcher == "megatron" else "lora"
    return str(config.raw("tuner_type") or default).lower() != "full"


def _precision(config: SwiftConfig) -> Iterator[tuple[str, Any]]:
    """Mixed precision follows the weights' dtype unless it is said (arguments/base_args/model_args.py:129)."""
    dtype = config.dtype
    if config.raw("torch_dtype") is None:
        yield "dtype", dtype or "auto"  # `auto`: that of a checkpoint that is not there
    yield "bf16", dtype == "bfloat16" if dtype else "${bf16}"
    yield "fp16", dtype in ("float16", "float32") if dtype else "${fp16}"


def _renamed(document: Document, names: Mapping[str, str]) -> Any:
    """The places with the keys of the file under the Trainer's names."""
    places = document.places
    if not isinstance(places, Places) or not isinstance(places.root[5], dict):
        return places
    below: dict[Any, Entry] = dict(places.root[5])
    for spelling, name in names.items():
        if name and spelling in below:
            below[name] = below[spelling]
    if "max_length" in below:
        below["max_prompt_length"] = below["max_length"]
    if "torch_dtype" in below:
        below["bf16"] = below["fp16"] = below["torch_dtype"]
    return places.with_keys(below)


def _renamed_paths(unknown: Mapping[Any, str], names: Mapping[str, str]) -> dict[Any, str]:
    """Reasons for placeholders, under the names that the values have now."""
    found: dict[Any, str] = {}
    for path, reason in unknown.items():
        name = names.get(str(path[0])) or str(path[0])
        moved = (name, *path[1:])
        found[moved] = reason
        if path[0] == "torch_dtype":
            found |= dict.fromkeys((("bf16",), ("fp16",)), reason)
    return found


def spreads_layers(config: SwiftConfig, fields: Fields) -> bool:
    """Whether each process spreads the model's layers over several cards: more are visible than NPROC_PER_NODE, or that
    is not set (cli/main.py, use_torchrun; model/utils.py, get_default_device_map; utils/env.py, is_mp). Its programs
    under `python` are one process, and under torchrun as many as that says."""
    start = config.section.document.start
    sharded = fields.get("parallelism.zero.stage", 0) == 3 or fields.get("parallelism.engine", "") == "fsdp"
    if start is None or start.launcher not in ("swift", "python", "torchrun") or sharded:
        return False
    processes = config.environment("NPROC_PER_NODE") if start.launcher == "swift" else start.machine.gpus_per_node
    if start.launcher == "python" or processes is None:
        processes = 1 if config.visible_cards else None
    if processes is not None:
        return len(config.visible_cards) >= 2 * processes > 0
    world = fields.get("parallelism.world_size")
    return isinstance(world, int) and world >= 2 and config.environment("NNODES") is None
