"""Memory of a run that trains nothing: one that generates, one that evaluates. Bytes on one card."""

from __future__ import annotations

import memlint.memory.evaluation as evaluation
import memlint.memory.generation.device_map as device_map
from memlint._record import NamedTuple
from memlint.memory.evaluation import cache_bytes, forward_inputs, forward_without_gradients, layer_cache
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.segments.step import TrainingStep, required_count, training_step
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.state.storage import BYTES
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run


class _Share(NamedTuple):
    """What one card holds of the model. `layers`: indexes of its decoder layers. `head`: it computes the logits."""

    weights: int
    layers: tuple[int, ...]
    head: bool


def phases(run: Run, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The phases load and evaluation, or load, prefill and decode, of the card that needs most."""
    if run.evaluation.enabled is True and not run.evaluation.predict_with_generate:
        found = evaluation.evaluation(run, units, state, False)
        return (phase("load", _parts(state.weights)), *((found,) if found else ()))
    batch = required_count(run.batch.micro_batch_size, "batch.micro_batch_size", "say how many sequences at a time")
    beams = max(1, run.evaluation.num_beams)
    run = run._replace(method=run.method._replace(stage="sft"))
    every = [_generating(run, units, state, share, batch * beams) for share in _shares(run, units, state)]
    return max(every, key=lambda found: max(one.allocated_bytes for one in found))


def _shares(run: Run, units: tuple[Unit, ...], state: ModelState) -> list[_Share]:
    """Each card's part of the model: all of it, unless the layers are spread."""
    world = run.parallelism.world_size
    if run.parallelism.engine != "device_map" or not isinstance(world, int) or world < 2:
        count = len(run.model.architecture.layer_type_ids)
        return [_Share(state.weights, tuple(range(count)), True)]
    cards = device_map.spread(units, world)
    return [
        _Share(
            sum(map(weight_bytes, card)),
            tuple(unit.layer_index for unit in card if unit.name == "layer"),
            index == len(cards) - 1,
        )
        for index, card in enumerate(cards)
    ]


def _generating(
    run: Run, units: tuple[Unit, ...], state: ModelState, share: _Share, sequences: int
) -> tuple[Phase, ...]:
    """The phases of one card. Each beam is a sequence of its own from the prompt on (transformers 5.23
    generation/utils.py, `_expand_inputs_for_generation`)."""
    step = training_step(run, units, sequences=sequences)
    new = run.sequence.max_new_tokens or run.evaluation.max_new_tokens
    if not run.serving.uses_cache:
        longest = run._replace(sequence=run.sequence._replace(length=step.tokens.length + new))
        whole = _forward(training_step(longest, units, sequences=sequences), units, state, share)
        return (
            phase("load", _parts(share.weights)),
            phase("prefill", _parts(share.weights, *_forward(step, units, state, share))),
            phase("decode", _parts(share.weights, *whole)),
        )
    activations, logits = _forward(step, units, state, share)
    if run.model.architecture.encoder_only:  # reads the whole text at once and generates nothing
        parts = _parts(share.weights, activations + forward_inputs(step), logits)
        return (phase("load", _parts(share.weights)), phase("prefill", parts))
    prompt = _cache(step, share, step.tokens.length, after_prefill=True)
    every = _cache(step, share, step.tokens.length + new)
    one = training_step(run._replace(sequence=run.sequence._replace(length=1)), units, sequences=sequences)
    one_token = max(_forward(one, units, state, share)[0], activations // max(1, step.tokens.length))
    growing = _growing(step, share, step.tokens.length + new)
    # the first new token still finds what the prompt left in layers with a window
    held = max(0, prompt - every)
    return (
        phase("load", _parts(share.weights)),
        phase("prefill", _parts(share.weights, activations + forward_inputs(step), logits, prompt)),
        phase("decode", _parts(share.weights, one_token, logits, every, growing + held)),
    )


def _growing(step: TrainingStep, share: _Share, length: int) -> int:
    """Bytes that a decode holds for a moment beside the cache: the old keys of the layer whose new ones are written
    (`torch.cat`, transformers 5.23 cache_utils.py, DynamicLayer.update), and under eager attention its keys and values
    for every head (models/llama/modeling_llama.py, repeat_kv)."""
    width = BYTES[str(step.run.precision.compute)]
    found = 0
    for index in {step.architecture.layer_type_ids[one] for one in share.layers}:
        layer = step.architecture.layer_types[index]
        mixer = layer.attention
        keys_and_values = layer_cache(layer, length) * step.tokens.sequences * width
        copies = mixer.heads // mixer.kv_heads if step.kernels.mask and mixer.kind == "attention" else 0
        found = max(found, keys_and_values // 2, keys_and_values * copies if copies > 1 else 0)
    return found


def cache_details(run: Run, found: tuple[Phase, ...]) -> dict[str, int]:
    """Bytes of cache that a request of the whole length takes on this card, and on average a token of it."""
    cache = found[-1].components.get("kv_cache", 0)
    requests, prompt = run.batch.micro_batch_size, run.sequence.length
    if not cache or not isinstance(requests, int) or not isinstance(prompt, int):
        return {}
    length = prompt + (run.sequence.max_new_tokens or run.evaluation.max_new_tokens)
    return {"cache_request_bytes": cache // requests, "cache_token_bytes": cache // (requests * length)}


def _cache(step: TrainingStep, share: _Share, length: int, after_prefill: bool = False) -> int:
    """Bytes of the key-value cache of this card's layers."""
    width = BYTES[str(step.run.precision.compute)]
    kinds = tuple(step.architecture.layer_type_ids[index] for index in share.layers)
    return cache_bytes(
        step.architecture._replace(layer_type_ids=kinds), step.tokens.sequences, length, width, after_prefill
    )


def _forward(step: TrainingStep, units: tuple[Unit, ...], state: ModelState, share: _Share) -> tuple[int, int]:
    """Activations and logits of a forward without gradients."""
    peak, logits = forward_without_gradients(for_last_token(step), units, state, head=share.head)
    return peak - logits, logits


def for_last_token(step: TrainingStep) -> TrainingStep:
    """The step of a forward that asks for the last token's logits only (transformers 5.23 generation/utils.py,
    `logits_to_keep`)."""
    return step._replace(counts={**step.counts, "logits": step.tokens.sequences * step.vocabulary})


def _parts(weights: int, activations: int = 0, logits: int = 0, cache: int = 0, temporaries: int = 0) -> dict[str, int]:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts |= {"weights": weights, "activations": activations, "logits": logits, "temporaries": temporaries}
    return {**parts, "kv_cache": cache} if cache else parts
