"""Simulates one batch of requests with the real model on fake tensors: the forwards of the prompt and the last token.

Source: transformers 5.23.0 generation/utils.py (GenerationMixin._sample, _prefill): the cache is a DynamicCache of the
model's configuration, the head computes the last token's logits, a step copies them to float32. Beams are sequences.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import memlint.simulation.attention as attention_functions
import memlint.simulation.build as build
import memlint.simulation.quantized as quantized
import memlint.simulation.replay as replay
from memlint._record import NamedTuple
from memlint.simulation.kernels import temporaries
from memlint.simulation.modules import ModuleNames
from memlint.simulation.precision import CudaOperators
from memlint.simulation.result import Live
from memlint.simulation.tracker import Tracker


class GenerationSettings(NamedTuple):
    """Requests to simulate. `prompt`: tokens of each sequence; `new_tokens`: generated after them, at least one."""

    sequences: int = 1
    prompt: int = 1024
    new_tokens: int = 256
    attention: str = "sdpa"
    dtype: str = "bfloat16"
    quantized_bits: int = 0
    double_quant: bool = False


class SimulatedGeneration(NamedTuple):
    """Bytes of live tensors. `load`: weights and buffers. `prefill`: the peak of the prompt's forward. `decode`: the
    higher of the peaks of the first and of the last new token's forward. `cached_prompt`, `cached`: the size of the
    cache after the prompt and at the end."""

    parameters: int
    load: int
    prefill: int
    decode: int
    cached_prompt: int
    cached: int
    live_by_phase: tuple[tuple[str, tuple[Live, ...]], ...]


class _Fused(CudaOperators):
    """Also replaces PyTorch's attention by the stand-in for CUDA's kernel, for layers that call it directly."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            return attention_functions.FlashCore.apply(*args[:3])
        return super().__torch_function__(func, types, args, kwargs)


def simulate_generation(
    config_class: str, config: Mapping[str, Any], settings: GenerationSettings
) -> SimulatedGeneration:
    """Simulates a batch of requests: the prompt, the first new token, and the last one.

    The cache before the last token is made by a second, longer prompt and one more token, which are not counted. That
    extra token matters: only after it do layers with a sliding window drop the tokens outside of the window.
    """
    attention_functions.register()
    dtype = build.DTYPES[settings.dtype]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = _model(config_class, config, settings)
        if settings.quantized_bits:
            quantized.quantise(model, settings.quantized_bits, settings.double_quant, dtype)
        tracker = Tracker(temporaries)
        with FakeTensorMode(), tracker, _Fused():
            return _generate(model, tracker, settings)


def _model(config_class: str, config: Mapping[str, Any], settings: GenerationSettings) -> Any:
    """The model with the stand-in for CUDA's attention. Falcon's layers choose a class by the implementation's name and
    only know their own (transformers 5.23.0 models/falcon/modeling_falcon.py:547): they use PyTorch's attention."""
    dtype = build.DTYPES[settings.dtype]
    try:
        implementation = attention_functions.implementation(settings.attention)
        return build.model_on_meta(config_class, config, implementation, dtype).eval()
    except KeyError:
        return build.model_on_meta(config_class, config, settings.attention, dtype).eval()


def _generate(model: Any, tracker: Tracker, settings: GenerationSettings) -> SimulatedGeneration:
    tracker.begin("load")
    build.to_fake(model)
    tracker.label((*model.parameters(), *model.buffers()), "weights")
    load = tracker.current
    names = ModuleNames(model)
    tracker.module = names.current
    with names:
        tracker.begin("prefill")
        cache = _forward(model, settings.sequences, settings.prompt, _cache(model))
        cached_prompt = held_bytes(cache)
        tracker.begin("decode")
        cache = _forward(model, settings.sequences, 1, cache)
        if settings.new_tokens > 1:
            tracker.begin("between")
            cache = _forward(model, settings.sequences, settings.prompt + settings.new_tokens - 2, _cache(model))
            cache = _forward(model, settings.sequences, 1, cache)
            tracker.begin("last_token")
            cache = _forward(model, settings.sequences, 1, cache)
    return _result(model, tracker, (load, cached_prompt, held_bytes(cache)))


def _cache(model: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=model.config.get_text_config(decoder=True))


def _forward(model: Any, sequences: int, length: int, cache: Any) -> Any:
    """The cache after `length` more tokens of each sequence."""
    tokens = torch.zeros((sequences, length), dtype=torch.long)
    outputs = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
    outputs.logits[:, -1, :].to(copy=True, dtype=torch.float32)
    return outputs.past_key_values


def held_bytes(cache: Any) -> int:
    """Bytes of the storages that a cache keeps alive. A view counts with the whole tensor that it is a view of."""
    tensors = (value for layer in cache.layers for value in vars(layer).values() if isinstance(value, torch.Tensor))
    storages = {tensor.untyped_storage()._cdata: tensor for tensor in tensors if tensor.is_floating_point()}
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def _result(model: Any, tracker: Tracker, held: tuple[int, int, int]) -> SimulatedGeneration:
    load, cached_prompt, cached = held
    replay.name_logits(tracker, model.get_output_embeddings().weight.shape[0])
    best = replay.phase_peaks(tracker)
    decode = max((one for one in ("decode", "last_token") if one in best), key=lambda one: best[one][1])
    live = tuple(
        (name, replay.grouped(replay.live_allocations(tracker, best[phase][0])))
        for name, phase in (("prefill", "prefill"), ("decode", decode))
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return SimulatedGeneration(parameters, load, best["prefill"][1], best[decode][1], cached_prompt, cached, live)
