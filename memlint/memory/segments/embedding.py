"""The first segment of a step: the embedding of tokens, with its positions, norm, dropout and projection."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.memory.autograd.tape import Parameter
from memlint.memory.autograd.walk import Segment, tensor_bytes
from memlint.memory.layers.embedding import EmbeddingShape, embedding_profile
from memlint.memory.segments.step import (
    COPY_PREFIX,
    TrainingStep,
    autograd_owns_grads,
    norm_of_embedding,
    segment,
    token_embedding,
)
from memlint.memory.state.parameter_roles import extents, part_names, roles
from memlint.memory.state.parameters import ties_head
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import Tensor, Unit, UnitState


def embedding_segment(step: TrainingStep, unit: Unit, unit_state: UnitState) -> Segment:
    tensor = token_embedding(unit)
    architecture = step.architecture
    weight = Parameter("w:embedding", BYTES[tensor.dtype], tensor.trainable)
    projection = _projection_of_embedding(unit)
    shape = embedding_shape(step, unit)
    counts = dict(step.counts)
    counts["w:embedding"] = tensor.numel
    counts["own_norm"] = architecture.per_layer_embedding_size
    if projection is not None:
        counts |= extents(unit.tensors, step.tokens.count)
    autocast_width = step.kernels.autocast_width if projection or shape.norm else 0
    linears = roles(unit.tensors, step.run.method.dropout > 0).linears if shape.own_embeddings else ()
    profile = embedding_profile(weight, shape, step.kernels.kernel_memory, projection, autocast_width, linears)
    if shape.tied:
        kept = unit_state.gradient_kept - gradient_of_tied(unit, unit_state)
        kept -= waiting_gradient_of_tied(step, unit, unit_state)
        return segment(profile, tensor_bytes(counts, False), unit_state._replace(gradient_kept=kept), 1)
    return segment(profile, tensor_bytes(counts, autograd_owns_grads(step.run, unit_state)), unit_state, 1)


def embedding_shape(step: TrainingStep, unit: Unit) -> EmbeddingShape:
    architecture, tensor = step.architecture, token_embedding(unit)
    return EmbeddingShape(
        scaled=architecture.embedding_scale,
        positions=architecture.learned_positions,
        types=architecture.typed_embeddings,
        norm=norm_of_embedding(architecture),
        dropout=architecture.embedding_dropout > 0,
        projected=architecture.projected_embeddings,
        tied=ties_head(step.run) and not tensor.name.startswith(COPY_PREFIX),
        own_embeddings=architecture.per_layer_embedding_size > 0,
        streams=max((kind.streams for kind in architecture.layer_types), default=1),
        leaf=_embedding_is_leaf(step, tensor),
    )


def gradient_of_tied(unit: Unit, unit_state: UnitState) -> int:
    """Bytes of the gradient of the table that the head reads too: the head's backward makes it. Those of the unit's
    other tensors (positions, types) come when the embedding's backward runs."""
    trained = sum(tensor.numel for tensor in unit.tensors if tensor.trainable)
    return unit_state.gradient_kept * token_embedding(unit).numel // trained if trained else 0


def waiting_gradient_of_tied(step: TrainingStep, unit: Unit, unit_state: UnitState) -> int:
    """Bytes of that gradient where it does not become the parameter's own, beside the gradients that were accumulated
    before: autograd adds to those when all gradients of a parameter have come, the last one from the embedding (torch
    2.13 torch/csrc/autograd/engine.cpp, evaluate_function: `not_ready`)."""
    table = token_embedding(unit)
    moved = step.run.parallelism.engine not in ("single", "ddp")
    return 0 if moved or unit_state.gradient_kept or not table.trainable else rounded(table.numel * BYTES[table.dtype])


def _embedding_is_leaf(step: TrainingStep, tensor: Tensor) -> bool:
    """Whether a hook alone makes the output of the embedding require a gradient, and the model changes it before its
    first layer: the graph holds it, as it holds every leaf. An embedding that scales in its own module gives the hook
    the scaled output, which the first layer reads."""
    hooked = step.run.checkpointing.mode not in ("none", "selective") and step.needs_gradient and not tensor.trainable
    architecture = step.architecture
    scaled = architecture.embedding_scale and families.of(architecture).scales_after_embedding
    changed = architecture.learned_positions or architecture.embedding_norm or architecture.embedding_dropout > 0
    return hooked and (scaled or changed)


# What an embedding is projected with: to those of all layers (Gemma 3n, Gemma 4), or to the residual stream (ELECTRA).
_PROJECTIONS_OF_EMBEDDING = ("per_layer_model_projection", "embeddings_project")


def _projection_of_embedding(unit: Unit) -> Parameter | None:
    for tensor, part in zip(unit.tensors, part_names(unit.tensors)):
        if part in _PROJECTIONS_OF_EMBEDDING:
            trains = tensor.trainable or any(one.kind == "adapter" for one in unit.tensors)
            return Parameter("w:" + part, BYTES.get(tensor.dtype, 0), trains)
    return None
