"""What one decoder layer keeps for its backward pass, tensor size by tensor size: for the guide's figure."""

from __future__ import annotations

from collections import Counter

import memlint.memory.layers.elements as elements
from memlint.architectures import resolve
from memlint.memory.autograd.profile import LayerMode
from memlint.memory.autograd.tape import counters
from memlint.memory.layers.activations import record
from memlint.memory.segments.step import training_step
from memlint.memory.state.parameter_roles import extents, roles
from memlint.memory.state.parameters import units
from memlint.run import Attention, Batch, Checkpointing, Loss, Method, Model, Optimizer, Parallelism, Precision, Run
from memlint.run import Sequence as Tokens


def run_of(name: str, tokens: int) -> Run:
    """Full training in bfloat16 on one card, without checkpointing."""
    return Run(
        "guide",
        name,
        model=Model(name, resolve(name).architecture, "bfloat16"),
        method=Method("full"),
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(1, 1),
        sequence=Tokens(tokens),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("none"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
    )


def kept(name: str, tokens: int) -> list[tuple[str, int, int]]:
    """(name of the size, tensors, bytes) for each size of tensor that one layer saves, the largest first."""
    run = run_of(name, tokens)
    found = units(run)
    step = training_step(run, found)
    unit = next(one for one in found if one.name == "layer")
    shape = step.architecture.layer_types[step.architecture.layer_type_ids[unit.layer_index]]
    counts = {**step.counts, **elements.of_layer(shape, step.tokens, step.architecture.hidden_size)}
    counts.update(extents(unit.tensors, step.tokens.count))
    profile = record(shape, roles(unit.tensors, False), step.kernels, LayerMode(step.width))
    live = profile.live_until_backward
    bytes_of: Counter[str] = Counter()
    tensors: Counter[str] = Counter()
    for size, many in zip(live.tensor_sizes, counters(live.packed[0], len(live.tensor_sizes))):
        if many:
            bytes_of[size.extent] += many * counts[size.extent] * size.width
            tensors[size.extent] += many
    return [(extent, tensors[extent], size) for extent, size in bytes_of.most_common() if size >= 2**20]
