"""Issues of a command of Megatron-LM: values that its own checks refuse before a step (core 0.19)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.formats.base import Issue
from memlint.formats.fields import Fields, interpolated
from memlint.formats.megatron.config import MegatronConfig
from memlint.formats.megatron.keys import KEYS
from memlint.formats.megatron.parallel import gpus_of_model, lacks_nodes, uneven_stages

_REFUSES = "Megatron-LM refuses to start"
# What gives the layers of a stage, or the batch, otherwise.
_OTHER_BATCH = ("rampup_batch_size", "step_batch_size_schedule")


class _Number(NamedTuple):
    """A number of the command, in words."""

    value: int | None
    words: str


def megatron_issues(fields: Fields, config: MegatronConfig) -> tuple[Issue, ...]:
    """A fork's program may have changed any of it, so nothing is said of one."""
    if config.foreign:
        return ()
    return (*_types(config), *_precision(config), *_sizes(config), *_world(fields, config), *_batch(fields, config))


def _types(config: MegatronConfig) -> Iterator[Issue]:
    """Text where argparse reads a number."""
    for row in KEYS:
        written, value = config.written(row.name), config.raw(row.name)
        is_number = row.kind in ("whole", "number") and isinstance(value, str) and not interpolated(value)
        if written and is_number and row.parsed(value) is None:
            noun = "a whole number" if row.kind == "whole" else "a number"
            yield config.section.issue("wrong-type", f"`{written}` must be {noun}, got `{value}`", written)


def _precision(config: MegatronConfig) -> Iterator[Issue]:
    """training/arguments.py:1177 and 1185: `assert not args.bf16`, `assert not args.fp16`."""
    if config.get("fp16") is True and config.get("bf16") is True:
        yield config.section.issue("conflict", f"`fp16` and `bf16` are both given; {_REFUSES}", "fp16")


def _sizes(config: MegatronConfig) -> Iterator[Issue]:
    """core/transformer/transformer_config.py:1323 (heads), training/arguments.py:932 (layers), :1296 (hidden size) and
    :1318 (positions)."""
    heads = _given(config, "num_attention_heads", "attention heads")
    tensor = _given(config, "tensor_model_parallel_size", "tensor parallel ranks")
    yield from _indivisible(config, "tensor_model_parallel_size", heads, tensor)
    stages = _given(config, "pipeline_model_parallel_size", "pipeline stages")
    if not uneven_stages(config) and config.written("num_layers"):
        layers = _given(config, "num_layers", "layers")
        yield from _indivisible(config, "pipeline_model_parallel_size", layers, stages)
    if config.written("kv_channels") is None:
        yield from _indivisible(config, "num_attention_heads", _given(config, "hidden_size", "hidden size"), heads)
    length, positions = config.whole("seq_length"), config.whole("max_position_embeddings")
    if length and positions and positions < length:
        message = f"sequences of {length} tokens have no more than {positions} positions; {_REFUSES}"
        yield config.section.issue("conflict", message, "max_position_embeddings")


def _world(fields: Fields, config: MegatronConfig) -> Iterator[Issue]:
    """training/arguments.py:418. A script that starts one of several machines leaves their number open."""
    world, each = fields.get("parallelism.world_size"), fields.get("parallelism.gpus_per_node")
    model = gpus_of_model(config)
    if isinstance(world, int) and model and world % model and not lacks_nodes(world, each, config):
        sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
        key = next((one for one in sizes if config.written(one)), "num_layers")
        message = f"{world} GPUs are no multiple of the {model} that one copy of the model is divided over; {_REFUSES}"
        yield config.section.issue("conflict", message, config.written(key) or key)


def _batch(fields: Fields, config: MegatronConfig) -> Iterator[Issue]:
    """core/num_microbatches_calculator.py:381. A batch that grows is checked step by step."""
    copies, micro = fields.get("parallelism.data_parallel_size"), config.whole("micro_batch_size")
    total = _given(config, "global_batch_size", "global batch size")
    if any(config.gives(key) for key in _OTHER_BATCH) or not isinstance(copies, int) or not micro:
        return
    if config.gives("decrease_batch_size_if_needed"):
        return
    world, model = fields.get("parallelism.world_size"), gpus_of_model(config)
    if not isinstance(world, int) or not model or world % model:
        return
    parts = _Number(micro * copies, f"micro batch size x data-parallel ranks ({micro} x {copies})")
    yield from _indivisible(config, "global_batch_size", total, parts)


def _given(config: MegatronConfig, key: str, words: str) -> _Number:
    return _Number(config.whole(key), words)


def _indivisible(config: MegatronConfig, key: str, whole: _Number, parts: _Number) -> Iterator[Issue]:
    if whole.value and parts.value and whole.value % parts.value:
        message = f"{whole.words} {whole.value} is no multiple of {parts.words}: {parts.value}; {_REFUSES}"
        yield config.section.issue("conflict", message, config.written(key) or key)
