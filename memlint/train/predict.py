"""Estimates a live training: reads its arguments like those of a file, and takes the number of parameters from the live
model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

import memlint.train.live as live
from memlint._record import NamedTuple
from memlint.api.calls import estimate, estimates_of
from memlint.api.results import RunEstimate
from memlint.api.sources import CallFacts, GivenFiles, request
from memlint.errors import Error
from memlint.memory.segments.step import sequences_per_sample
from memlint.memory.values import Estimate, Phase
from memlint.repository.files.discovery import FoundFile
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run
from memlint.train.live import LiveState

CONFIG, DEEPSPEED, ACCELERATE = "arguments.json", "deepspeed.json", "accelerate.yaml"
# Arguments that are passed as separate files here, and those for training on a CPU: the estimate is always for a card.
_NOT_KEYS = ("deepspeed", "fsdp", "fsdp_config", "model_name_or_path", "accelerator_config", "use_cpu", "no_cuda")


class Training(NamedTuple):
    """A training before its first step.

    `arguments`: TrainingArguments as a dict; for a custom loop, the author's options under the same names. `batch`:
    (samples, tokens of each sequence), 0 if unknown. `gpu`: None for the one in use. `stage`: the stage of a TRL
    trainer (live.stage); "" if the arguments' keys state it, None if memlint cannot estimate it.
    """

    model: torch.nn.Module
    optimizer: Any
    arguments: Mapping[str, Any]
    batch: tuple[int, int] = (0, 0)
    gpu: str | None = None
    stage: str | None = ""


def predicted(training: Training, seen: tuple[int, int] | None = None) -> RunEstimate:
    """The estimate of a training on one GPU. `seen`: (sequences of a forward, tokens of each), overrides
    `training.batch`. Raises Error if the arguments cannot be read, or the trainer is not known."""
    if training.stage is None:
        raise Error("no estimate of what this trainer of TRL's does; its memory is measured")
    run = _run_of(training)
    run = as_batch(run, training.batch) if seen is None else as_batch(run, (_samples(run, seen[0]), seen[1]))
    found = estimate(run)
    state = live.live_state(training.model)
    adjusted = with_live_parameters(found.report.estimate, state, state.weight_bytes - _weights_alone(run))
    return found._replace(report=found.report._replace(estimate=adjusted))


def _samples(run: Run, sequences: int) -> int:
    """The number of samples in a forward: those of DPO and reward models have two sequences each."""
    return -(-sequences // sequences_per_sample(run))


def _weights_alone(run: Run) -> int:
    """Bytes of the trained model's weights as memlint counts them, without those of a reference model."""
    alone = estimate(run._replace(method=run.method._replace(reference_model="none", extra_models=())))
    loaded = next((phase for phase in alone.phases if phase.name == "load"), None)
    return loaded.components.get("weights", 0) if loaded else 0


def as_batch(run: Run, batch: tuple[int, int]) -> Run:
    """The run with this many samples of this length. A 0 leaves the run's own value."""
    size, length = batch
    if size:
        run = run._replace(batch=run.batch._replace(micro_batch_size=size))
    if length:
        run = run._replace(sequence=run.sequence._replace(length=length))
    return run


def _run_of(training: Training) -> Run:
    config = live.model_config(training.model)
    name = str(config.get("_name_or_path") or config.get("model_type") or type(training.model).__name__)
    keys: dict[str, Any] = {"output_dir": "output", "learning_rate": 1e-5, "per_device_train_batch_size": 1}
    keys |= {key: value for key, value in training.arguments.items() if value is not None and key not in _NOT_KEYS}
    keys |= {**live.model_keys(training.model), **live.optimizer_keys(training.optimizer)}
    keys |= {"model_name_or_path": name, "do_train": True}
    if training.stage:
        keys["task_type"] = training.stage
    texts: dict[str, str] = {}
    companions: tuple[str, ...] = ()
    deepspeed = deepspeed_config(training.arguments)
    fsdp = fsdp_config(training.model, keys)
    if deepspeed:
        texts[DEEPSPEED] = json.dumps(deepspeed, default=str)
        keys["deepspeed"] = DEEPSPEED
    elif fsdp:
        texts[ACCELERATE] = json.dumps(fsdp)
        companions = (ACCELERATE,)
    texts[CONFIG] = json.dumps(keys, default=str)
    files = GivenFiles((FoundFile(CONFIG, named=True),), in_memory(texts, {name: config} if config else None))
    facts = CallFacts(training.gpu or live.card(), gpus=live.world()[1], versions=live.versions())
    asked = request(facts, files)
    run = estimates_of(asked._replace(facts=asked.facts._replace(companions=companions)), files)[0].run
    return _as_updated(run, training)


def _as_updated(run: Run, training: Training) -> Run:
    """The run, with an optimizer that updates one tensor at a time if the live one does."""
    if not live.steps_by_tensor(training.model, training.optimizer):
        return run
    return run._replace(optimizer=run.optimizer._replace(foreach=False))


def deepspeed_config(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The DeepSpeed configuration in use, with its `auto` values filled in; {} without DeepSpeed."""
    plugin = getattr(_accelerator_state(), "deepspeed_plugin", None)
    config = getattr(plugin, "deepspeed_config", None) or arguments.get("deepspeed")
    if isinstance(config, str):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    return dict(config) if isinstance(config, Mapping) else {}


def fsdp_config(model: torch.nn.Module, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The FSDP set-up in use, as an accelerate config file would state it; {} without FSDP."""
    plugin = getattr(_accelerator_state(), "fsdp_plugin", None)
    version = _fsdp_version(model) or int(getattr(plugin, "fsdp_version", 0) or 0) * (plugin is not None)
    if not version:
        return {}
    options = {"fsdp_version": version, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
    if plugin is not None:
        options |= _fsdp_options(plugin, version)
    precision = "bf16" if keys.get("bf16") else "fp16" if keys.get("fp16") else "no"
    world = live.world()[1]
    return {
        "distributed_type": "FSDP",
        "num_processes": world,
        "num_machines": 1,
        "mixed_precision": precision,
        "fsdp_config": options,
    }


def _fsdp_options(plugin: Any, version: int) -> dict[str, Any]:
    """The options of accelerate's plugin, under the names of its config file. For FSDP2 `cpu_offload` is always a
    policy object, whose class tells whether it offloads (accelerate 1.15 utils/dataclasses.py, set_cpu_offload)."""
    reshard, offload = getattr(plugin, "reshard_after_forward", None), plugin.cpu_offload
    options = {
        "fsdp_reshard_after_forward": bool(reshard) if version == 2 else str(getattr(reshard, "name", reshard)),
        "fsdp_offload_params": type(offload).__name__ == "CPUOffloadPolicy" or bool(_flag(offload, "offload_params")),
        "fsdp_activation_checkpointing": bool(plugin.activation_checkpointing),
    }
    if plugin.auto_wrap_policy is None:
        options["fsdp_auto_wrap_policy"] = "NO_WRAP"
    return options | ({"fsdp_use_orig_params": bool(plugin.use_orig_params)} if version == 1 else {})


def _flag(found: Any, name: str) -> Any:
    """`found` if it is a flag, else its attribute `name`."""
    return found if isinstance(found, bool) else getattr(found, name, False)


def _fsdp_version(model: torch.nn.Module) -> int:
    """1 or 2 if modules of the model are wrapped by that version of PyTorch's FSDP, else 0."""
    names = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    return 1 if "FullyShardedDataParallel" in names else 2 if "FSDPModule" in names else 0


def _accelerator_state() -> Any:
    """accelerate's state of this process; None if no Accelerator was created."""
    try:
        from accelerate.state import AcceleratorState
    except ImportError:
        return None
    return AcceleratorState() if AcceleratorState._shared_state else None


def with_live_parameters(found: Estimate, state: LiveState, more: int) -> Estimate:
    """The estimate corrected by the live model's parameters. `more`: bytes of weights that it has beyond the
    estimate's.

    Gradients and optimizer states grow with the trainable parameters. Nothing changes if both counts agree.
    """
    if not found.phases or found.on_card is None:
        return found
    share = state.trainable / found.trainable_parameters if state.trainable and found.trainable_parameters else 1.0
    if abs(more) < 0.001 * state.weight_bytes and abs(share - 1) < 0.001:
        return found
    phases = tuple(_with_state(phase, more, share) for phase in found.phases)
    peak = max(phases, key=lambda phase: phase.allocated_bytes)
    change = peak.allocated_bytes - (found.allocated_bytes or 0)
    card: dict[str, Any] = {
        name: max(0, (getattr(found, name) or 0) + change) for name in _CARD_FIGURES if getattr(found, name)
    }
    return found._replace(
        phases=phases,
        peak_phase=peak.name,
        allocated_bytes=peak.allocated_bytes,
        parameters=state.parameters or found.parameters,
        trainable_parameters=state.trainable or found.trainable_parameters,
        verdict=_verdict(found, card),
        **card,
    )


_CARD_FIGURES = (
    *("reserved_bytes", "device_bytes", "device_low_bytes", "device_high_bytes", "device_unclamped_high_bytes"),
    *("allocated_low_bytes", "allocated_high_bytes"),
)


def _verdict(found: Estimate, card: Mapping[str, int]) -> str:
    if not found.budget_bytes or "device_high_bytes" not in card:
        return found.verdict
    if card["device_high_bytes"] <= found.budget_bytes:
        return "fits"
    return "out_of_memory" if card["device_low_bytes"] > found.budget_bytes else "tight"


def _with_state(phase: Phase, more_weights: int, share: float) -> Phase:
    parts = dict(phase.components)
    if "weights" in parts:
        parts["weights"] = max(0, parts["weights"] + more_weights)
    for name in ("gradients", "optimizer_states"):
        if name in parts:
            parts[name] = int(parts[name] * share)
    return phase._replace(components=parts, allocated_bytes=sum(parts.values()))


def length_of(arguments: Mapping[str, Any]) -> int:
    """The longest sequence that the arguments allow, in tokens; 0 if they do not state it."""
    for key in ("max_length", "max_seq_length"):
        value = arguments.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return 0


def is_known(found: RunEstimate) -> bool:
    return found.allocated_bytes is not None and found.run.model.architecture is not UNKNOWN
