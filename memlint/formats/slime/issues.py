"""Issues of a command of slime: what its parsers pass over or refuse, and a model that is not the checkpoint's."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.architectures.model import Architecture
from memlint.formats.base import Issue
from memlint.formats.fields import Fields, interpolated, value_at
from memlint.formats.megatron.issues import uneven_sizes, whole_copies
from memlint.formats.misspelled_flags import misspelled_flags
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.slime import reading
from memlint.formats.slime.config import SlimeConfig
from memlint.formats.slime.recognise import SCHEMA
from memlint.formats.slime.refused import REFUSES, is_judged, refused


def slime_issues(fields: Fields, config: SlimeConfig) -> Iterator[Issue]:
    """A program with arguments of its own may check others, so that nothing else is said of one."""
    slips = tuple(
        one for one in misspelled_flags(config.section, SCHEMA) if one.pointer and one.pointer[-1] in config.strange
    )
    yield from (_passed_over(issue) for issue in slips)
    if len(slips) < len(config.strange) or not is_judged(config):
        return
    yield from (
        one
        for one in schema_issues(config.section.value, config.section.document.path, SCHEMA)
        if _is_read(config, one)
    )
    yield from refused(fields, config)
    yield from uneven_sizes(config)
    yield from whole_copies(fields, config)
    yield from _batch(fields, config)
    yield from _other_model(config)


def _passed_over(issue: Issue) -> Issue:
    """`parse_known_args` leaves an unknown argument to others, and nobody reads it (0.3.1
    slime/backends/megatron_utils/arguments.py, `ignore_unknown_args=True`)."""
    return issue._replace(severity="warning", message=f"{issue.message} slime passes over it")


def _is_read(config: SlimeConfig, issue: Issue) -> bool:
    """A number or a choice that argparse cannot read; a word behind a switch is passed over."""
    value = value_at(config.section.value, issue.pointer)
    words = value if isinstance(value, list) else [value]
    is_open = any(word is None or isinstance(word, bool) or interpolated(word) for word in words)
    is_switch = compiled_schema(SCHEMA).schema["properties"].get(str(issue.pointer[0]), {}).get("type") == "boolean"
    return issue.code in ("wrong-type", "bad-value") and not is_open and not is_switch


def _batch(fields: Fields, config: SlimeConfig) -> Iterator[Issue]:
    """Megatron-LM's own check, which dynamic batches meet with micro-batches of one (core 0.19
    num_microbatches_calculator.py:381)."""
    copies, micro, total = (
        fields.get("parallelism.data_parallel_size"),
        config.whole(reading.MICRO),
        reading.sequences_of_update(config),
    )
    world = fields.get("parallelism.world_size")
    if not (isinstance(copies, int) and isinstance(world, int) and micro and total) or world % copies:
        return
    if total % (micro * copies):
        key = reading.BATCH if config.written(reading.BATCH) else reading.STEPS
        message = f"{total} sequences are no multiple of micro batches of {micro} on {copies} data-parallel ranks"
        yield config.section.issue("conflict", f"{message}; {REFUSES}", key)


# Sizes of the checkpoint that slime compares with an argument (0.1.0 hf_validate_args; 0.3.1 _hf_validate_args).
def _sizes(model: Architecture) -> Iterator[tuple[str, str, int]]:
    layer = model.layer_types[0]
    yield "hidden_size", "hidden_size", model.hidden_size
    yield "num_hidden_layers", "num_layers", len(model.layer_type_ids)
    yield "num_attention_heads", "num_attention_heads", layer.attention.heads
    if all(one.mlp.kind != "moe" for one in model.layer_types):
        yield "intermediate_size", "ffn_hidden_size", layer.mlp.intermediate_size


def _other_model(config: SlimeConfig) -> Iterator[Issue]:
    """Arguments that describe another model than the checkpoint is."""
    model = config.architecture
    if model is None or not model.layer_types or len({one.attention.heads for one in model.layer_types}) > 1:
        return
    where = "" if config.is_named else f"`{config.checkpoint}` is the model of that name"
    for name, key, size in _sizes(model):
        given = config.whole(key)
        if config.written(key) is not None and given is not None and size and given != size:
            message = f"{given} is not the checkpoint's {name} ({size}); {REFUSES}"
            yield config.section.issue("conflict", message, key, where=where)
            return
