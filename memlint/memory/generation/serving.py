"""What vLLM and SGLang hold on a card: weights, one forward's activations, and a cache that fills a share. Bytes.

vLLM 0.33.0 (v1/worker/gpu_worker.py:641, v1/worker/utils.py:725): weights, the activations of a forward of
`max_num_batched_tokens` and the cache together take `gpu_memory_utilization` of the card's memory. SGLang 0.5.23
(srt/model_executor/model_runner_components/kv_pool_runtime.py:76): weights and cache take `mem_fraction_static` of what
is free at the start; activations and CUDA graphs use the rest. The CUDA context and the communication buffers are
outside of both shares. CUDA graphs, which vLLM takes off the cache as well since 0.21, have no figure here: the cache
is the largest that it may be.
"""

from __future__ import annotations

import memlint.hardware as hardware
import memlint.memory.card.device as device
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, DecoderLayer
from memlint.hardware.model import Gpu
from memlint.memory.evaluation import cache_bytes, forward_without_gradients, layer_cache
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.segments.step import required_count, training_step
from memlint.memory.state.parameters import required
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Estimate, ModelState, Phase, Unit, UnknownField
from memlint.run import Run

# Tokens and sequences of a forward. vLLM's asynchronous engine has no defaults of its own (0.33.0 config/
# scheduler.py:41-43, engine/arg_utils.py:3170). SGLang's smallest prefill is taken (srt/server_args.py).
_TOKENS, _SEQUENCES = 2048, 128
# vLLM 0.33.0: tokens of a block (config/cache.py:185), and batches whose tokens are under way (config/vllm.py:588).
_BLOCK, _BATCHES = 16, 2


class Demand(NamedTuple):
    """What one card needs: `request` is the cache of one request of `length` tokens."""

    weights: int
    activations: int
    logits: int
    request: int
    length: int


def estimate(run: Run, units: tuple[Unit, ...], state: ModelState) -> Estimate:
    """The estimate of a server. Unknown without a card: the server fills a share of it."""
    required(run.parallelism.world_size, "parallelism.world_size", "say how many cards share the model (--gpus)")
    needs = demand(run, units, state)
    gpu, share = run.hardware.gpu, required(run.serving.memory_share, "serving.memory_share", "say the share")
    if gpu is None:
        reason = f"{run.parallelism.engine} fills {share:g} of each card with weights and cache: name the card (--gpu)"
        return Estimate((), "", *(None,) * 6, "unknown", unknown=(UnknownField("hardware.gpu", reason),))
    outside = device.context_bytes(run) + device.nccl_bytes(run)
    left = room(run, gpu, needs)
    found = (_phase("load", needs.weights), _serving(needs, max(left, needs.request)))
    peak = found[-1].allocated_bytes
    usable = device.usable_bytes(run)
    high = peak + outside if run.parallelism.engine == "vllm" else max(peak + outside, min(usable, gpu.usable_bytes))
    verdict = device.verdict(peak + outside, high, usable) if left >= needs.request else "out_of_memory"
    return Estimate(
        found,
        "serve",
        peak,
        peak,
        peak + outside,
        peak + outside,
        high,
        None,
        verdict,
        budget_bytes=usable,
        fits_on=tuple(one.name for one in hardware.common() if _holds(run, one, needs)),
        details=_details(needs, max(0, left)),
    )


def demand(run: Run, units: tuple[Unit, ...], state: ModelState) -> Demand:
    """Bytes on each card of the group that shares every layer."""
    length = required_count(run.sequence.length, "sequence.length", "say the longest sequence")
    batch = run.batch._replace(micro_batch_size=1)
    one = run._replace(batch=batch, method=run.method._replace(stage="sft"))
    forward = one._replace(sequence=run.sequence._replace(length=_TOKENS))
    step = training_step(forward, units)
    step = step._replace(counts={**step.counts, "logits": _SEQUENCES * step.vocabulary})
    peak, logits = forward_without_gradients(step, units, state)
    width = BYTES[run.serving.cache_dtype or str(run.precision.compute)]
    whole = request_elements(run.parallelism.engine, step.architecture, length) * width
    return Demand(
        state.weights,
        peak - logits,
        logits,
        -(-whole // cache_divisor(run, run.parallelism.tensor_parallel_size)),
        length,
    )


def request_elements(engine: str, architecture: Architecture, length: int) -> int:
    """Elements that a request of `length` tokens has in the cache of the whole model.

    vLLM hands out whole blocks (0.33.0 v1/kv_cache_interface.py:641). Of layers with a window it keeps the window, what
    is under way, and a block more, since the window may begin inside of one (:917). SGLang counts tokens (0.5.23
    srt/model_executor/pool_configurator.py:222).
    """
    if engine != "vllm":
        return cache_bytes(architecture, 1, length, 1)
    kinds = [_in_blocks(layer, length) for layer in architecture.layer_types]
    return sum(kinds[kind] for kind in architecture.layer_type_ids)


def _in_blocks(layer: DecoderLayer, length: int) -> int:
    """Elements that a request has in one layer, in whole blocks; states do not come in blocks."""
    shape = layer.attention
    blocks = -(-length // _BLOCK)
    if shape.kind == "attention" and shape.sliding_window > 0:
        held = min(shape.sliding_window - 1 + _BATCHES * _TOKENS, length)
        layer = layer._replace(attention=shape._replace(sliding_window=0))
        blocks = -(-held // _BLOCK) + 1
    return layer_cache(layer, blocks * _BLOCK)


def cache_divisor(run: Run, ranks: int) -> int:
    """Of `ranks` cards, those that share the keys and values: by heads, which are copied where there are fewer; MLA's
    latent is whole on each."""
    mixers = [layer.attention for layer in run.model.architecture.layer_types]
    heads = min((mixer.kv_heads for mixer in mixers if mixer.kind == "attention"), default=1)
    return max(1, min(ranks, heads))


def room(run: Run, gpu: Gpu, needs: Demand) -> int:
    """Bytes left for the cache on such a card; negative where not even the weights fit the share."""
    share = float(required(run.serving.memory_share, "serving.memory_share", "say the share"))
    if run.parallelism.engine == "vllm":
        return int(share * gpu.usable_bytes) - needs.weights - needs.activations - needs.logits
    on_card = run._replace(hardware=run.hardware._replace(gpu=gpu))
    free = gpu.usable_bytes - device.context_bytes(on_card) - device.nccl_bytes(on_card)
    return int(share * free) - needs.weights


def _holds(run: Run, gpu: Gpu, needs: Demand) -> bool:
    """Whether such cards serve a request of the longest length, in the dtype of the run."""
    return room(run, gpu, needs) >= needs.request and device.supports(gpu, run)


def _serving(needs: Demand, cache: int) -> Phase:
    return _phase("serve", needs.weights, needs.activations, needs.logits, cache)


def _phase(name: str, weights: int, activations: int = 0, logits: int = 0, cache: int = 0) -> Phase:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts |= {"weights": weights, "activations": activations, "logits": logits, "kv_cache": cache}
    return phase(name, parts)


def _details(needs: Demand, cache: int) -> dict[str, int]:
    """Terms for rules and tables. `cache_requests`: of the longest length, at once."""
    return {
        "weights_bytes": needs.weights,
        "resident_bytes": needs.weights,
        "activations_bytes": needs.activations,
        "logits_bytes": needs.logits,
        "whole_logits_bytes": 0,
        "cache_bytes": cache,
        "cache_request_bytes": needs.request,
        "cache_token_bytes": needs.request // needs.length,
        "cache_tokens": needs.length * cache // max(1, needs.request),
        "cache_requests": cache // max(1, needs.request),
    }
