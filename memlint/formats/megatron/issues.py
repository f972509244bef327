"""Issues of a command of Megatron-LM: values that its own checks refuse before a step (core 0.19)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Fields, interpolated
from memlint.formats.megatron.config import MegatronConfig
from memlint.formats.megatron.keys import KEYS
from memlint.formats.megatron.parallel import SIZES_OF_MODEL, gpus_of_model, lacks_nodes, uneven_stages
from memlint.formats.megatron.recognise import SCHEMA
from memlint.formats.misspelled_flags import misspelled_flags

_REFUSES = "Megatron-LM refuses to start"
# What lets the batch be another.
_OTHER_BATCH = ("rampup_batch_size", "step_batch_size_schedule", "decrease_batch_size_if_needed")


def megatron_issues(fields: Fields, config: MegatronConfig) -> tuple[Issue, ...]:
    """A fork's program may have changed any of it, so nothing is said of one. A misspelled flag makes no fork."""
    slips = tuple(misspelled_flags(config.section, SCHEMA)) if config.foreign else ()
    if len(slips) < len(config.foreign):
        return ()
    values = (*_types(config), *_precision(config), *_sizes(config))
    if _may_be_one_process(config):
        return (*slips, *values)
    return (*slips, *values, *whole_copies(fields, config), *_batch(fields, config))


def _may_be_one_process(config: MegatronConfig) -> bool:
    """Whether `python` starts it, once or as often as nobody says: the machine's GPUs are not those of the run."""
    start = config.section.document.start
    return start is not None and start.launcher == "python" and not start.machine.gpus


def _types(config: MegatronConfig) -> Iterator[Issue]:
    """Text where argparse reads a number."""
    for row in KEYS:
        written, value = config.written(row.name), config.raw(row.name)
        is_number = row.kind in ("whole", "number") and isinstance(value, str) and not interpolated(value)
        if written and is_number and row.parsed(value) is None:
            noun = "a whole number" if row.kind == "whole" else "a number"
            yield config.section.issue("wrong-type", f"`{written}` must be {noun}, got `{value}`", written)


def _precision(config: MegatronConfig) -> Iterator[Issue]:
    """training/arguments.py:1173 and 1182: `assert not args.bf16`, `assert not args.fp16`."""
    if config.get("fp16") is True and config.get("bf16") is True:
        yield config.section.issue("conflict", f"`fp16` and `bf16` are both given; {_REFUSES}", "fp16")


def _sizes(config: MegatronConfig) -> Iterator[Issue]:
    """training/arguments.py:1314 (positions)."""
    yield from uneven_sizes(config)
    length, positions = config.whole("seq_length"), config.whole("max_position_embeddings")
    if length and positions and positions < length:
        message = f"sequences of {length} tokens have no more than {positions} positions; {_REFUSES}"
        yield config.section.issue("conflict", message, "max_position_embeddings")


def uneven_sizes(config: MegatronConfig) -> Iterator[Issue]:
    """core/transformer/transformer_config.py:1323 (heads), training/arguments.py:934 (layers) and :1292 (hidden
    size)."""
    yield from _uneven(config, "num_attention_heads", "attention heads", "tensor_model_parallel_size", "ranks")
    if not uneven_stages(config):
        yield from _uneven(config, "num_layers", "layers", "pipeline_model_parallel_size", "pipeline stages")
    if config.written("kv_channels") is None:
        yield from _uneven(config, "hidden_size", "channels", "num_attention_heads", "attention heads")


def whole_copies(fields: Fields, config: MegatronConfig) -> Iterator[Issue]:
    """training/arguments.py:430. A script that starts one of several machines leaves their number open."""
    world, each = fields.get("parallelism.world_size"), fields.get("parallelism.gpus_per_node")
    model = gpus_of_model(config)
    if isinstance(world, int) and model and world % model and not lacks_nodes(world, each, config):
        key = next((one for one in SIZES_OF_MODEL if config.written(one)), "num_layers")
        message = f"{world} GPUs are no multiple of the {model} that one copy of the model is divided over; {_REFUSES}"
        yield config.section.issue("conflict", message, config.written(key) or key)


def _batch(fields: Fields, config: MegatronConfig) -> Iterator[Issue]:
    """core/num_microbatches_calculator.py:381. A batch that grows is checked step by step."""
    copies, micro = fields.get("parallelism.data_parallel_size"), config.whole("micro_batch_size")
    if any(config.gives(key) for key in _OTHER_BATCH) or not isinstance(copies, int) or not micro:
        return
    world, model, total = fields.get("parallelism.world_size"), gpus_of_model(config), config.whole("global_batch_size")
    if not isinstance(world, int) or not model or world % model or not total:
        return
    if total % (micro * copies):
        message = f"{total} sequences are no multiple of micro batches of {micro} on {copies} data-parallel ranks"
        yield config.section.issue("conflict", f"{message}; {_REFUSES}", "global_batch_size")


def _uneven(config: MegatronConfig, whole: str, things: str, parts: str, places: str) -> Iterator[Issue]:
    count, among = config.whole(whole), config.whole(parts)
    if count and among and count % among:
        message = f"{count} {things} cannot be divided evenly among {among} {places}; {_REFUSES}"
        yield config.section.issue("conflict", message, config.written(parts) or parts)
