"""One training step of a real model on fake tensors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import memlint.memory.families.lookup as families
import memlint.simulation.attention as attention_functions
import memlint.simulation.build as build
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.freezing as freezing
import memlint.simulation.fused_adapters as fused_adapters
import memlint.simulation.kernels as kernels
import memlint.simulation.liger as liger
import memlint.simulation.losses as losses
import memlint.simulation.optimizers as optimizers
import memlint.simulation.precision as precision
import memlint.simulation.quantized as quantized
import memlint.simulation.replay as replay
import memlint.simulation.scattered_experts as scattered_experts
import memlint.simulation.sharding as sharding
import memlint.simulation.stages as stages
from memlint._record import NamedTuple
from memlint.memory.state.parameters import VOCABULARY_NAMES
from memlint.simulation.modules import ModuleNames
from memlint.simulation.result import Moments, SimulatedStep, UnsupportedRun
from memlint.simulation.tracker import Tracker

# Losses that take whole logits; transformers calls them with its own arguments.
LOSSES: Mapping[str, Callable[..., torch.Tensor]] = {
    "upcast": losses.upcast_first,
    "as_they_are": losses.as_they_are,
    "fused_ce": losses.fused,
    "fused_ce_upcast": losses.fused_after_upcast,
}


class StepSettings(NamedTuple):
    """A step to simulate. Plain values, without `Run`.

    `frozen`, `trainable`, `adapter_dtype`: dtypes of parameters. `autocast`: its dtype, "" for none.
    `trained`: full, lora, freeze. `checkpointing`: none, reentrant, non_reentrant.
    """

    micro_batch_size: int = 1
    sequence_length: int = 1024
    source_length: int = 0  # what an encoder reads, where it is not as much
    attention: str = "flash_attention_2"
    trained: str = "full"
    adapter: build.Adapter | None = None
    unfrozen: freezing.Unfrozen = freezing.Unfrozen()  # what trains if `trained` is freeze
    frozen: str = "bfloat16"
    trainable: str = "float32"
    autocast: str = "bfloat16"
    outputs_to_fp32: bool = True
    checkpointing: str = "reentrant"
    offloads_checkpoints: bool = False  # the inputs of checkpointed layers are kept in host memory
    checkpoints_trainable_layers_only: bool = False  # LLaMA-Factory: no checkpointing of frozen layers
    optimizer: str = "adamw_torch_fused"
    momentum: float = 0.0
    max_grad_norm: float = 1.0
    accumulates: bool = False
    keeps_outputs: bool = False
    kernel_temporaries: bool = True
    quantized_bits: int = 0  # 4 or 8: bitsandbytes; frozen linear weights
    double_quant: bool = False
    expert_kernel: str = ""  # the kernel for stacked experts that replaces transformers' own code: scattermoe
    quantized_experts: bool = False  # stacked experts too, as Axolotl quantises them on load
    upcast_rest: bool = False  # peft.prepare_model_for_kbit_training
    upcast_norms: bool = False  # LLaMA-Factory's `upcast_layernorm`
    vocabulary_to_bf16: bool = False  # trl's peft_module_casting_to_bf16 after it
    loss: str = "plain"  # plain, liger, chunked, fused_head, or a key of LOSSES: upcast is transformers' before 4.49
    chunk_tokens: int = 256
    sharding: sharding.Sharding = sharding.Sharding()
    upcast_head: bool = False  # transformers before 4.46: float32 logits replace those in half precision at once
    parts: freezing.Parts = freezing.Parts()
    stage: str = ""  # a key of stages.STAGES; preference stages have two sequences per sample of the micro-batch
    fused_adapters: tuple[str, ...] = ()  # projections fused with their adapter into one operation: qkv, o, mlp
    embeddings_dtype: str = ""  # dtype of embeddings, head and norms if it differs from that of the layers
    embeddings_in_32_bits: bool = (
        True  # 8-bit optimizers keep 32 bits for them: transformers since 4.52, trainer.py:1328
    )
    liger: str = ""  # layers with Liger's kernels: in_place, or out_of_place (norms allocate their gradient)


def simulate_settings(config_class: str, config: Mapping[str, Any], settings: StepSettings) -> SimulatedStep:
    """Simulates the steady step of a model. Tensors are fake: they take no memory."""
    started = time.perf_counter()
    attention_functions.register()
    attention_functions.FlashCore.temporaries = settings.kernel_temporaries
    precision.HalfToFloatSoftmax.temporaries = settings.kernel_temporaries
    torch.distributions.Distribution.set_default_validate_args(False)  # it would read the values of fake tensors
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _build(config_class, config, settings)
        tracker = Tracker(kernels.temporaries if settings.kernel_temporaries else None)
        rotary = liger.rotary(model, bool(settings.liger))
        with sharding.group(settings.sharding, tracker) as mesh, rotary, FakeTensorMode(), tracker:
            figures = _run(model, tracker, settings, mesh)
    return _result(tracker, figures, time.perf_counter() - started)


class _Figures(NamedTuple):
    parameters: int
    trainable: int
    base: int
    states: int
    moments: Moments
    end_forward: int
    end_forward_position: int


def _build(config_class: str, config: Mapping[str, Any], settings: StepSettings) -> Any:
    frozen = build.DTYPES[settings.frozen]
    implementation = attention_functions.implementation(settings.attention)
    model = build.model_on_meta(config_class, config, implementation, frozen)
    trainable = build.DTYPES[settings.trainable]
    if settings.trained == "freeze":
        freezing.train_only(model, settings.unfrozen)
    if settings.expert_kernel:
        scattered_experts.use(model)
    freezing.set_parts(model, settings.parts)
    _set_loss(model, settings)
    if settings.liger:
        liger.patch(model, settings.liger == "in_place")
    if settings.quantized_bits:
        quantized.quantise(model, settings.quantized_bits, settings.double_quant, frozen)
    if settings.quantized_experts:
        quantized.quantise_experts(model, settings.quantized_bits, settings.double_quant, frozen)
    if settings.upcast_rest:
        build.cast(model, lambda parameter: torch.float32)
    if settings.upcast_norms:
        build.upcast_norms(model)
    if settings.vocabulary_to_bf16:
        build.cast_modules(model, VOCABULARY_NAMES, torch.bfloat16)
    if settings.trained == "lora":
        assert settings.adapter is not None
        excluded = freezing.names_of_frozen(model, settings.parts)
        adapter = settings.adapter._replace(exclude=(*settings.adapter.exclude, *sorted(excluded)))
        model = build.add_adapter(model, adapter)
        quantized.match_peft_behaviour(model)
        fused_adapters.patch(model, settings.fused_adapters)
    build.cast(model, lambda parameter: trainable if parameter.requires_grad else None)
    if settings.embeddings_dtype:
        build.cast_embeddings_and_norms(model, build.DTYPES[settings.embeddings_dtype])
    return model


def _set_loss(model: Any, settings: StepSettings) -> None:
    if settings.upcast_head:
        losses.upcast_head(model)
    if settings.loss in LOSSES:
        model.loss_function = LOSSES[settings.loss]
    elif settings.loss == "liger":
        losses.fuse(model)
    elif settings.loss == "chunked":
        losses.chunked(model, settings.chunk_tokens)
    elif settings.loss == "fused_head":
        losses.fuse_head(model, settings.chunk_tokens)


def _run(model: Any, tracker: Tracker, settings: StepSettings, mesh: Any) -> _Figures:
    tracker.begin("base")
    build.to_fake(model)
    sharding.shard(model, settings.sharding, mesh)
    inputs = _inputs(model, settings)
    base = _count_base(model, tracker, inputs)
    if settings.checkpointing != "none":
        _checkpoint(model, settings, tracker)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optimizers.create(settings.optimizer, trained, settings.momentum, _embeddings(model, settings))
    tracker.begin("states")
    made = len(tracker.events)
    states = _first_step(optimizer, trained, tracker)
    begin = len(tracker.events)
    replica = sharding.replicated(model, settings.sharding)
    names = ModuleNames(model)
    tracker.module, tracker.recomputing = names.current, names.running
    with names, precision.CudaOperators():
        _accumulate(model, inputs, settings, trained)
        end = _step(model, replica, inputs, tracker, settings, optimizer, trained)
    moments = Moments(made, begin, tracker.marks[-1][0], len(tracker.events))
    replay.name_logits(tracker, model.get_output_embeddings().weight.shape[0])
    return _Figures(_count(model.parameters()), _count(trained), base, states, moments, *end)


def _accumulate(
    model: Any, inputs: Mapping[str, torch.Tensor], settings: StepSettings, trained: list[torch.nn.Parameter]
) -> None:
    """Computes the gradients of earlier micro-batches, if there are any."""
    if not settings.accumulates:
        return
    if settings.sharding.reduces_last:
        with sharding.without_reducing(model):
            stages.STAGES[settings.stage](_forward(model, settings), inputs, model)["loss"].backward()
        return
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)


def _embeddings(model: Any, settings: StepSettings) -> frozenset[int]:
    """Ids of the embeddings' parameters: the Trainer makes 8-bit optimizers keep their states in 32 bits."""
    modules = (
        module
        for module in model.modules()
        if settings.embeddings_in_32_bits and isinstance(module, torch.nn.Embedding)
    )
    return frozenset(id(module.weight) for module in modules)


def _count(parameters: Any) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _inputs(model: Any, settings: StepSettings) -> dict[str, torch.Tensor]:
    each = 2 if settings.stage in stages.PAIRED else 1
    shape = (each * settings.micro_batch_size, settings.sequence_length)
    found = {name: torch.zeros(shape, dtype=torch.int64) for name in ("input_ids", "labels")}
    if model.config.is_encoder_decoder and getattr(model.config, "num_mel_bins", 0):
        frames = (shape[0], model.config.num_mel_bins, 2 * model.config.max_source_positions)
        return {
            "input_features": torch.zeros(
                frames, dtype=build.DTYPES[settings.frozen] if not settings.autocast else torch.float32
            ),
            "labels": found["labels"],
        }
    if settings.source_length and model.config.is_encoder_decoder:
        found["input_ids"] = torch.zeros((shape[0], settings.source_length), dtype=torch.int64)
    # Classes that do not use the attention interface make scores' masks of it in its own dtype.
    family = families.of_model_type(model.config.model_type)
    if family.attention.eager_only:
        found["attention_mask"] = torch.ones(shape, dtype=torch.int64)
    if family.vision.needs_token_types:
        found["mm_token_type_ids"] = torch.zeros(shape, dtype=torch.int64)
    return found


def _count_base(model: Any, tracker: Tracker, inputs: Mapping[str, torch.Tensor]) -> int:
    for name, parameter in model.named_parameters():
        found = tracker.allocation_of(sharding.local(parameter))
        if found is not None:
            found.module, found.kind = name.rpartition(".")[0], "weights"
    tracker.label(model.buffers(), "weights")
    tracker.label(inputs.values(), "inputs")
    return tracker.current - sum(found.bytes for t in inputs.values() if (found := tracker.allocation_of(t)))


def _checkpoint(model: Any, settings: StepSettings, tracker: Tracker) -> None:
    kind = checkpoints.Kind(
        settings.checkpointing == "reentrant", settings.offloads_checkpoints, settings.checkpoints_trainable_layers_only
    )
    checkpoints.enable(model, kind, tracker)


def _first_step(optimizer: Any, trained: list[torch.nn.Parameter], tracker: Tracker) -> int:
    """Makes the optimizer create its states; returns their bytes."""
    before = tracker.current
    tracker.ignored = optimizers.on_host(optimizer)
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    tracker.label(map(sharding.local, optimizers.states(optimizer)), "optimizer_states")
    tracker.ignored = lambda tensor: False
    return tracker.current - before


def _step(
    model: Any,
    replica: Any,
    inputs: Mapping[str, torch.Tensor],
    tracker: Tracker,
    settings: StepSettings,
    optimizer: Any,
    trained: list[torch.nn.Parameter],
) -> tuple[int, int]:
    tracker.begin("forward")
    outputs = stages.STAGES[settings.stage](_forward(replica, settings), inputs, model)
    loss = outputs["loss"]
    _require_gradient(loss.requires_grad)
    kept = outputs if settings.keeps_outputs else None
    del outputs
    end = (tracker.current, len(tracker.events))
    tracker.begin("backward")
    loss.backward()
    del loss
    vision = list(freezing.trained_vision(model, settings.parts))
    _require_gradient(not vision or any(parameter.grad is not None for parameter in vision))
    tracker.label((sharding.local(p.grad) for p in trained if p.grad is not None), "gradients")
    tracker.begin("optimizer_step")
    tracker.ignored = optimizers.on_host(optimizer)
    if settings.max_grad_norm:
        torch.nn.utils.clip_grad_norm_(trained, settings.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    del kept
    return end


def _require_gradient(found: bool) -> None:
    if not found:
        raise UnsupportedRun("a vision tower or projector trains, and a simulated step reads no images")


def _forward(model: Any, settings: StepSettings) -> Callable[..., Any]:
    dtype = build.DTYPES.get(settings.autocast)

    def forward(**inputs: torch.Tensor) -> Any:
        with precision.autocast(dtype):
            outputs = model(**inputs)
        if settings.loss in ("liger", "chunked", "fused_head"):
            outputs["logits"] = None
        return outputs

    return precision.outputs_in_fp32(forward) if settings.outputs_to_fp32 else forward


def _result(tracker: Tracker, figures: _Figures, seconds: float) -> SimulatedStep:
    best = replay.phase_peaks(tracker)
    phases = {name: best[name] for name in ("forward", "backward", "optimizer_step") if name in best}
    peak_phase = max(phases, key=lambda name: phases[name][1])
    live = tuple((name, replay.grouped(replay.live_allocations(tracker, at))) for name, (at, _) in phases.items())
    return SimulatedStep(
        parameters=figures.parameters,
        trainable_parameters=figures.trainable,
        base=figures.base,
        optimizer_states=figures.states,
        end_forward=figures.end_forward,
        forward=phases["forward"][1],
        backward=phases["backward"][1],
        optimizer_step=phases.get("optimizer_step", (0, 0))[1],
        peak=phases[peak_phase][1],
        peak_phase=peak_phase,
        live_at_end_forward=replay.grouped(replay.live_allocations(tracker, figures.end_forward_position)),
        live_at_peak=dict(live)[peak_phase],
        live_by_phase=live,
        events=tuple(tracker.events),
        sizes=tuple(one.bytes for one in tracker.allocations),
        moments=figures.moments,
        seconds=seconds,
    )
