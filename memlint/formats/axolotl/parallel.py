"""Axolotl: how many GPUs, and what shards the model: DeepSpeed, FSDP, sequence and tensor parallelism."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import memlint.formats.axolotl.families as families
from memlint._record import NamedTuple
from memlint.formats.axolotl.config import AxolotlConfig
from memlint.formats.axolotl.model import SHARDS_WITH_FSDP2_SINCE, fsdp_version
from memlint.formats.base import Issue, MissingFile
from memlint.formats.engine_files import deepspeed_file, fsdp, launch_file, not_deepspeed, recognises
from memlint.formats.fields import Fields, Section, as_int, as_words, root
from memlint.formats.keys import FieldChange, Read, Written
from memlint.formats.references import issue as reference_issue
from memlint.run import Origin

_DEGREES = ("tensor_parallel_size", "context_parallel_size", "sequence_parallel_degree", "expert_parallel_size")
_DATA_PARALLEL = ("dp_shard_size", "dp_replicate_size")


class UsedSection(NamedTuple):
    """A section that took part, by its name in rules. `editable`: it is a file, or part of one."""

    name: str
    section: Section
    editable: bool = True


def degree(key: str, field: str) -> Read:
    """A reader of a degree of parallelism. 1 means none, and the launcher's value stays."""

    def read(fields: Fields, config: AxolotlConfig) -> None:
        size = config.own.integer(key)
        if size is not None and size > 1:
            config.put(fields, field, key, size)

    return read


def read_world(fields: Fields, config: AxolotlConfig) -> None:
    """The number of GPUs, where a key sets it."""
    _world_of_degrees(fields, config)
    if not isinstance(fields.get("parallelism.world_size"), int):
        fields.unknown(
            "parallelism.world_size", "nobody said how many GPUs (--gpus, a directive): all visible ones train"
        )


def apply_engine(fields: Fields, config: AxolotlConfig) -> tuple[UsedSection, ...]:
    """Engine and sharding. The file's own keys win over the launcher's."""
    used = _engine(fields, config)
    _data_parallel_ranks(fields)
    _hybrid_sharding(fields, config)
    return used


def _world_of_degrees(fields: Fields, config: AxolotlConfig) -> None:
    """`dp_shard_size: 16` shards over 16 GPUs: with the other degrees, so many train.

    A degree of 1 counts no GPUs: FSDP then shards over all that are left (axolotl 0.19.0 utils/distributed.py:359-374).
    """
    sizes = [as_int(config.own.get(key)) for key in (*_DATA_PARALLEL, *_DEGREES)]
    if isinstance(fields.get("parallelism.world_size"), int) or not any(
        size and size > 1 for size in sizes[: len(_DATA_PARALLEL)]
    ):
        return
    world = 1
    for size in sizes:
        world *= max(1, size or 1)
    fields.put("parallelism.world_size", world, config.own.origin("dp_shard_size"))


def apply_launch_file(fields: Fields, config: AxolotlConfig) -> tuple[UsedSection, ...]:
    """The launch file of the config, and a DeepSpeed file for a config that names none."""
    found = []
    for document in config.context.companions:
        section = root(document, "companion")
        if recognises(launch_file, document):
            fields.issues.extend(launch_file.accelerate_issues(section, config.context))
            launch_file.apply_world(fields, section)
            named = launch_file.apply_accelerate(fields, section, config.hf, config.context, config.architecture)
            found.append(UsedSection("accelerate", section))
            found += [UsedSection("deepspeed", named)] if named is not None else []
        elif recognises(deepspeed_file, document) and not config.own.get("deepspeed"):
            _apply_deepspeed(fields, config, section)
            found.append(UsedSection("deepspeed", section))
    return tuple(found)


def _engine(fields: Fields, config: AxolotlConfig) -> tuple[UsedSection, ...]:
    if config.own.get("deepspeed"):
        return _deepspeed(fields, config)
    if config.own.get("fsdp") or config.own.get("fsdp_config"):
        return _fsdp(fields, config)
    if "parallelism.engine" not in fields.values:
        world = fields.get("parallelism.world_size")
        many = isinstance(world, int) and world > 1
        fields.infer("parallelism.engine", "ddp" if many else "single", "neither DeepSpeed nor FSDP is configured")
    # causal.py: `bool(cfg.ddp_find_unused_parameters)` under DDP
    unused = config.own.flag("ddp_find_unused_parameters")
    if config.family in families.FINDS_UNUSED_PARAMETERS and not config.own.written("ddp_find_unused_parameters"):
        unused = config.own.get("activation_offloading") is not True  # utils/config/__init__.py:419
    config.put(fields, "parallelism.find_unused_parameters", "ddp_find_unused_parameters", unused)
    return ()


def _deepspeed(fields: Fields, config: AxolotlConfig) -> tuple[UsedSection, ...]:
    value = config.own.get("deepspeed")
    if isinstance(value, dict):
        section = config.section.below("deepspeed")
        _apply_deepspeed(fields, config, section)
        return (UsedSection("deepspeed", section),)
    found = config.context.read(value, config.section.document.path) if isinstance(value, str) else None
    if isinstance(found, MissingFile):
        return _shipped_with_axolotl(fields, config, str(value), found)
    message = not_deepspeed(found, str(value)) if found is not None else f"`{value}` is no DeepSpeed configuration"
    if found is not None and not message:
        section = root(deepspeed_file.as_read(found), "companion")
        _apply_deepspeed(fields, config, section)
        return (UsedSection("deepspeed", section),)
    fields.issues.append(config.section.issue("wrong-companion", message, "deepspeed"))
    _unreadable(fields, config)
    return ()


def _unreadable(fields: Fields, config: AxolotlConfig) -> None:
    fields.put("parallelism.engine", "deepspeed", config.section.origin("deepspeed"))
    fields.unknown("parallelism.zero.stage", "the DeepSpeed file cannot be read")


def _shipped_with_axolotl(
    fields: Fields, config: AxolotlConfig, name: str, missing: MissingFile
) -> tuple[UsedSection, ...]:
    """The DeepSpeed file that `axolotl fetch deepspeed_configs` would write at this path."""
    absent = reference_issue(missing, config.section.document, (*config.section.pointer, "deepspeed"))
    value = shipped_deepspeed(name) if missing.code in ("missing", "outside") else None
    if value is None:
        fields.issues.append(_as_shipped_before_0_4(absent) if _SHIPPED_BEFORE_0_4.search(name) else absent)
        _unreadable(fields, config)
        return ()
    message = f"{absent.message}; its memory is estimated as with the file that Axolotl ships under that name"
    fields.issues.append(absent._replace(message=message, severity="info"))
    section = Section(config.section.document, value, (*config.section.pointer, "deepspeed"))
    _apply_deepspeed(fields, config, section)
    return (UsedSection("deepspeed", section, editable=False),)


def _apply_deepspeed(fields: Fields, config: AxolotlConfig, section: Section) -> None:
    fields.issues.extend(deepspeed_file.config_issues(section, config.context))
    deepspeed_file.apply_deepspeed(fields, section, config.hf, config.architecture)
    cast_by_deepspeed(fields)


def cast_by_deepspeed(fields: Fields) -> None:
    """Whatever Axolotl left in another dtype has that of all others under DeepSpeed."""
    quantization = fields.get("model.quantization")
    if fields.get("precision.compute") != "float32" or fields.get("parallelism.zero.stage") == 3:
        reason = "DeepSpeed makes all floating parameters one dtype"
        fields.infer("precision.embeddings_dtype", "", reason)
        fields.infer("model.quantization", quantization._replace(upcast_rest_to_fp32=False), reason)


# v0.3.0 deepspeed/zero2.json and zero3.json, relative to its folder; 0.4.0 has other files of these names in
# deepspeed_configs/.
_SHIPPED_BEFORE_0_4 = re.compile(r"^(?![/~])(?:.*/)?deepspeed/zero[23]\.json$")


def _as_shipped_before_0_4(absent: Issue) -> Issue:
    message = f"{absent.message}; Axolotl before 0.4.0 ships a file under that name, and training starts in its folder"
    return absent._replace(message=message, severity="info")


_SHIPPED = re.compile(
    r"(?:^|/)deepspeed_configs/zero([123])(_bf16)?(?:_cpuoffload_(all|params)|_torch_compile)?\.json$"
)
_AUTO = ("gradient_accumulation_steps", "gradient_clipping", "train_batch_size", "train_micro_batch_size_per_gpu")


def shipped_deepspeed(name: str) -> Mapping[str, Any] | None:
    """The configuration that Axolotl ships under `deepspeed_configs/` (0.19.0); None where it ships none."""
    found = _SHIPPED.search(name)
    if found is None:
        return None
    stage, half, offload = found.groups()
    zero: dict[str, Any] = {"stage": int(stage), "overlap_comm": True}
    if stage == "2":
        zero |= {"offload_optimizer": {"device": "cpu"}, "contiguous_gradients": True}
    if stage == "3":
        auto = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
        none = dict.fromkeys(("sub_group_size", "max_live_parameters", "max_reuse_distance"), 0)
        zero |= {"contiguous_gradients": True, "gather_16bit_weights_on_model_save": True, **none}
        zero |= dict.fromkeys(auto, "auto")
    moved = {"all": ("offload_optimizer", "offload_param"), "params": ("offload_param",)}.get(offload or "", ())
    zero |= {key: {"device": "cpu", "pin_memory": True} for key in moved}
    halves = {"bf16": {"enabled": True}} if half else {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
    return {**dict.fromkeys(_AUTO, "auto"), **halves, "zero_optimization": zero}


def _fsdp(fields: Fields, config: AxolotlConfig) -> tuple[UsedSection, ...]:
    """Version 1 unless the file says 2; keys with and without their `fsdp_` (validation.py, check_fsdp_*)."""
    words = as_words(config.own.get("fsdp"))
    defaults: dict[str, Any] = {**fsdp.TRAINER_DEFAULTS, "version": fsdp_version(config)}
    defaults |= fsdp.options_in_words(words)
    section = config.section.below("fsdp_config")
    key = "fsdp_config" if section.value else "fsdp"
    known = section._replace(value=_known_options(config, section))
    fsdp.apply_fsdp(
        fields, fsdp.FsdpOptions(known, defaults, f"{config.own.source} fsdp_config"), config.own.origin(key)
    )
    fields.put("parallelism.fsdp.version", fsdp_version(config), config.own.origin(key))
    if fsdp_version(config) == 2 and config.release >= _PREPARES_FSDP2:  # monkeypatch/accelerate/fsdp2.py:462
        reason = "what prepares FSDP2 models for Axolotl leaves trainable parameters as they are"
        fields.infer("parallelism.fsdp.upcasts_trainable", False, reason)
    return (UsedSection("fsdp", section),) if section.value else ()


_SHARDED_LOADING = "qlora_sharded_model_loading"  # utils/model_shard_quant.py: one layer at a time is on a card
_PREPARES_FSDP2 = (0, 12)
_CHECKS_FSDP_OPTIONS = (0, 13)
_FSDP_OPTIONS = frozenset(
    {
        *("fsdp_version", "version", "activation_checkpointing", "offload_params", "sync_module_states"),
        *("cpu_ram_efficient_loading", "cpu_offload_pin_memory", "use_orig_params", "state_dict_type"),
        *("final_state_dict_type", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params"),
        *("reshard_after_forward", "mixed_precision_policy"),
    }
)


def _known_options(config: AxolotlConfig, section: Section) -> Mapping[str, Any]:
    """Options without a field in FSDPConfig are dropped (utils/schemas/fsdp.py:12); before 0.13 all were passed on."""
    if config.release < _CHECKS_FSDP_OPTIONS:
        return section.value
    return {key: value for key, value in section.value.items() if str(key).removeprefix("fsdp_") in _FSDP_OPTIONS}


def read_what_starts_fsdp(fields: Fields, config: AxolotlConfig) -> None:
    """Whether FSDP can share 4-bit weights that are read one layer at a time: of a plain decoder, for the loader packs
    linear layers alone and builds a causal model (axolotl 0.19.0 utils/model_shard_quant.py). FSDP2 refuses it
    (utils/schemas/validation.py:1266)."""
    kinds = getattr(config.architecture, "layer_types", ())
    plain = kinds and not any(kind.mlp.experts for kind in kinds) and not config.architecture.towers
    release = config.release
    if plain and _NAMES_THE_VERSION <= release < SHARDS_WITH_FSDP2_SINCE and not config.context.companions:
        source = "Axolotl 0.19 loaders/model.py:1007, qlora_sharded_model_loading"
        fields.put("planning.starts_fsdp", 1, Origin("framework", detail=source))
        fields.put("planning.packs_by_layer", True, Origin("framework", detail=source))


_NAMES_THE_VERSION = (0, 12)


def started_fsdp(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that share 4-bit weights with FSDP (axolotl 0.19.0 docs/fsdp_qlora.qmd, docs/multi-gpu.qmd)."""
    options = {
        **({"offload_params": True} if changes["parallelism.fsdp.cpu_offload"] else {}),
        "cpu_ram_efficient_loading": True,
        "sync_module_states": True,
        "use_orig_params": False,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "state_dict_type": "FULL_STATE_DICT",
    }
    return {"fsdp_version": 1, "fsdp_config": options, _SHARDED_LOADING: True}


def _hybrid_sharding(fields: Fields, config: AxolotlConfig) -> None:
    """Shards over fewer GPUs than there are: the other GPUs hold copies (utils/distributed.py:334)."""
    ranks = fields.get("parallelism.data_parallel_size", None)
    shard, copies = (as_int(config.own.get(key)) for key in _DATA_PARALLEL)
    if not isinstance(ranks, int) or fields.get("parallelism.engine", "") != "fsdp":
        return
    size = shard or ranks // max(1, copies or 1)
    if 1 < size < ranks:
        key = "dp_shard_size" if shard else "dp_replicate_size"
        fields.put("parallelism.fsdp.strategy", "HYBRID_SHARD", config.own.origin(key))
        fields.put("parallelism.fsdp.shard_group_size", size, config.own.origin(key))


def _data_parallel_ranks(fields: Fields) -> None:
    world = fields.get("parallelism.world_size")
    if not isinstance(world, int):
        return
    for name in ("tensor_parallel_size", "context_parallel_size"):
        world //= max(1, fields.get(f"parallelism.{name}", 1))
    fields.infer("parallelism.data_parallel_size", max(1, world), "world size over the other degrees")


def write_context(change: FieldChange) -> Written | None:
    """GPUs that share each sequence, under the older name where the file has that. Degrees that make up all processes
    already leave none for it."""
    if any(as_int(change.section.get(key)) not in (None, 1) for key in _DATA_PARALLEL):
        return None
    older = "sequence_parallel_degree" in change.section and "context_parallel_size" not in change.section
    return {"sequence_parallel_degree" if older else "context_parallel_size": change.value}


def write_sharded_loading(change: FieldChange) -> Written | None:
    """`qlora_sharded_model_loading`, which packs as NF4 with double quantisation (utils/model_shard_quant.py)."""
    other = any(change.section.get(key) for key in ("bnb_config_kwargs", "reinit_weights"))
    return None if other or change.value is not True else {_SHARDED_LOADING: True}


_WRITABLE_FSDP = {
    "parallelism.fsdp.cpu_offload": "offload_params",
    "parallelism.fsdp.reshard_after_forward": "reshard_after_forward",
}


def write_fsdp_option(change: FieldChange) -> Written | None:
    """A key of `fsdp_config`, with the prefix `fsdp_` where the file's other keys have it (utils/schemas/fsdp.py)."""
    section = change.section.get("fsdp_config")
    optimizer = str(change.changes.get("optimizer.name", change.section.get("optimizer")))
    refused = "8bit" in optimizer and change.changes.get("parallelism.fsdp.cpu_offload")  # validation.py:1236
    if refused or not isinstance(section, dict) or not isinstance(change.value, bool):
        return None
    prefix = "fsdp_" if section and all(str(key).startswith("fsdp_") for key in section) else ""
    return {f"fsdp_config.{prefix}{_WRITABLE_FSDP[change.field]}": change.value}
