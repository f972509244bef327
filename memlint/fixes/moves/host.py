"""Moves that trade the GPU's memory for the host's: checkpoints, optimizer states, parameters, shards.

What the host then holds is in the estimate (`host_bytes`); the planner tells it, and refuses what no host has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import memlint.fixes.moves.quantization as quantization
from memlint._record import NamedTuple
from memlint.fixes.proposed_change import ProposedChange
from memlint.run import Run

_HALF = ("bfloat16", "float16")
_NEEDS_DEEPSPEED = "the deepspeed package must be installed"


def checkpoints(run: Run) -> Iterator[ProposedChange]:
    """Checkpoints wait in host memory until the backward wants them, by the framework's own way.

    Under Unsloth a script's own argument decides.
    """
    checkpoint, way = run.checkpointing, run.planning.checkpoint_offload
    if run.stack.use_unsloth or checkpoint.mode != "full" or checkpoint.offload or run.offload.activations != "none":
        return
    if way == "unsloth":
        changes: dict[str, Any] = {"checkpointing.mode": "unsloth", "checkpointing.offload": True}
    elif way == "saved_tensors":
        changes = {"offload.activations": "cpu"}
    else:
        changes = {"checkpointing.offload": True}
    yield ProposedChange("keep activation checkpoints in host memory", changes, "checkpoint offload")


def fsdp(run: Run) -> Iterator[ProposedChange]:
    """FSDP's shards of everything, and in host memory (PyTorch docs, FullyShardedDataParallel, CPUOffload)."""
    own = run.parallelism.fsdp
    if run.parallelism.engine != "fsdp":
        return
    shards: dict[str, Any] = {}
    if own.strategy in ("SHARD_GRAD_OP", "NO_SHARD") and own.version == 1:
        shards, title = {"parallelism.fsdp.strategy": "FULL_SHARD"}, f"FSDP {own.strategy} -> FULL_SHARD"
        yield ProposedChange(title, shards, "fsdp")
    if own.version == 2 and not own.reshard_after_forward:
        shards = {"parallelism.fsdp.reshard_after_forward": True}
        yield ProposedChange("reshard after the forward", shards, "fsdp")
    yield from _packed_in_host_memory(run)
    if not own.cpu_offload:
        stepping = _plain_adam(run)
        newer = {"parallelism.fsdp.version": 2} if own.version == 1 and run.planning.offloads_under_fsdp2 else {}
        title = "FSDP shards in host memory" + (", under FSDP2" if newer else "")
        title += ", with PyTorch's AdamW" if stepping else ""
        offloaded = {"parallelism.fsdp.cpu_offload": True, **newer, **stepping}
        yield ProposedChange(title, offloaded, "fsdp", safe=False)
        if shards:
            yield ProposedChange(f"{title}, all of them sharded", {**shards, **offloaded}, "fsdp", safe=False)


def _packed_in_host_memory(run: Run) -> Iterator[ProposedChange]:
    """4-bit weights packed one layer after another, so that no card holds all of them when loading ends."""
    own, weights = run.parallelism.fsdp, run.model.quantization
    packs = weights[:2] == ("bnb", 4) and not weights.prequantized
    loads = own.version == run.planning.starts_fsdp and own.cpu_ram_efficient_loading and not own.loads_packed_on_host
    if packs and loads and run.planning.packs_by_layer:
        changes = {"parallelism.fsdp.loads_packed_on_host": True}
        yield ProposedChange("pack the 4-bit weights layer by layer in host memory while they load", changes, "loading")


def _plain_adam(run: Run) -> dict[str, Any]:
    """An optimizer that can run on the host: bitsandbytes has no step for the CPU before 0.50, and one that is not
    compiled since (0.49.2 and 0.50.0 backends/cpu/ops.py, register_kernel)."""
    name = run.optimizer.name
    elsewhere = isinstance(name, str) and ("8bit" in name or name.startswith("paged_")) and "adam" in name
    return {"optimizer.name": "adamw_torch"} if elsewhere else {}


_PLAIN_ADAMW = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adamw_torch_xla", "adamw", "adam")


def _deepspeed_adam(run: Run) -> dict[str, Any]:
    """The AdamW that runs under DeepSpeed's offload, named where another optimizer was asked for: accelerate makes any
    of them DeepSpeed's Adam for the CPU (1.15 utils/deepspeed.py:29, map_pytorch_optim_to_deepspeed)."""
    replaced = run.optimizer.engine != "deepspeed" and run.optimizer.name not in _PLAIN_ADAMW
    return {"optimizer.name": "adamw_torch"} if replaced else {}


class Placement(NamedTuple):
    """A ZeRO stage, and where optimizer states and parameters are."""

    stage: int
    states: str = "none"
    parameters: str = "none"

    @property
    def in_host_memory(self) -> str:
        if self.parameters != "none":
            return f"parameters{' and optimizer states' if self.states != 'none' else ''} in host memory"
        return "optimizer states in host memory" if self.states != "none" else ""

    @property
    def words(self) -> str:
        return f"ZeRO-{self.stage}" + (f" with {self.in_host_memory}" if self.in_host_memory else "")


# From what is moved least to what is moved most. ZeRO-Offload keeps optimizer states in host memory (Ren et al. 2021,
# arXiv 2101.06840), ZeRO-Infinity the parameters as well (Rajbhandari et al. 2021, arXiv 2104.07857). Frameworks ship a
# file for each of them (LLaMA-Factory 0.9.5 examples/deepspeed, Axolotl 0.19 deepspeed_configs).
_PLACEMENTS = (
    Placement(2),
    Placement(3),
    Placement(2, "cpu"),
    Placement(3, "cpu"),
    Placement(3, "none", "cpu"),
    Placement(3, "cpu", "cpu"),
)


def zero(run: Run) -> Iterator[ProposedChange]:
    """Stage 2 shares gradients and optimizer states among the GPUs, stage 3 the parameters as well (Rajbhandari et al.
    2020, arXiv 1910.02054); what is left can wait in host memory. The result is the same, but another optimizer
    runs and the host needs the room: not to be changed unasked."""
    engine, world = run.parallelism.engine, run.parallelism.world_size
    known = isinstance(world, int) or engine == "deepspeed"
    if engine not in ("single", "ddp", "deepspeed") or not known or not _stage(run)[1]:
        return
    in_4_bits = run.model.quantization.method != "none"
    if not in_4_bits:
        yield from shared_4_bits(run)
    for placement in _PLACEMENTS:
        if _is_stronger(run, placement):
            yield ProposedChange(_title(run, placement), _placed(run, placement), "zero", False, _note(run))
    if in_4_bits:
        yield from shared_4_bits(run)


def shared_4_bits(run: Run) -> Iterator[ProposedChange]:
    """Weights in 4 bits, as they are or of adapters' base in half precision, in shards of FSDP, on the cards or in host
    memory, where nothing shards them yet (peft docs, accelerate/fsdp.md, "Use PEFT QLoRA and FSDP for finetuning large
    models on multiple GPUs"). ZeRO-3 moves the whole model to each card before it shares it; FSDP takes one layer after
    another. bitsandbytes' 8-bit optimizers fail on the shards of FSDP2 (axolotl 0.19.0
    utils/schemas/validation.py:1249)."""
    version, packed = run.planning.starts_fsdp, quantization.to_share(run)
    if (
        not version
        or run.method.kind != "lora"
        or run.parallelism.engine != "ddp"
        or packed is None
        or 3 not in stages(run)
    ):
        return
    for offloads in (False, True):
        plain = _plain_adam(run) if offloads or version == 2 else {}
        changes = {
            "parallelism.engine": "fsdp",
            "parallelism.fsdp.version": version,
            "parallelism.fsdp.cpu_offload": offloads,
            **packed,
            **plain,
        }
        title = f"shard over the {run.parallelism.world_size} GPUs with FSDP"
        title = f"4-bit base (QLoRA); {title}" if run.model.quantization.method == "none" else title
        title += ", shards in host memory" if offloads else ""
        title += ", with PyTorch's AdamW" if plain else ""
        yield ProposedChange(title, changes, "zero", safe=False)


def _title(run: Run, placement: Placement) -> str:
    moves_states = placement.states != run.offload.optimizer
    return _placement_title(run, placement) + (f", with {_CPU_ADAM}" if moves_states and _deepspeed_adam(run) else "")


_CPU_ADAM = "DeepSpeed's AdamW for the CPU"


def _placement_title(run: Run, placement: Placement) -> str:
    now = _stage(run)[0]
    if run.parallelism.engine == "single":
        return placement.words
    if run.parallelism.engine == "ddp":
        stage = f"shard over the {run.parallelism.world_size} GPUs with ZeRO-{placement.stage}"
        return ", ".join(filter(None, (stage, placement.in_host_memory)))
    stage = f"ZeRO stage {now} -> {placement.stage}" if placement.stage != now else ""
    return ", ".join(filter(None, (stage, _moved(run, placement).in_host_memory)))


def _moved(run: Run, placement: Placement) -> Placement:
    """The placement with what it moves to host memory, without what is there already."""
    states = "none" if placement.states == run.offload.optimizer else placement.states
    parameters = "none" if placement.parameters == run.offload.parameters else placement.parameters
    return Placement(placement.stage, states, parameters)


def _stage(run: Run) -> tuple[int, bool]:
    """The stage that the run has, and whether it is known."""
    if run.parallelism.engine != "deepspeed":
        return 0, True
    stage = run.parallelism.zero.stage
    return (stage, True) if isinstance(stage, int) else (0, False)


def _is_stronger(run: Run, placement: Placement) -> bool:
    """Whether the placement moves something that the run leaves on the GPU, takes nothing back, and is worth it: on one
    GPU only what goes to the host helps, and adapters have states of next to nothing."""
    now = Placement(_stage(run)[0], run.offload.optimizer, run.offload.parameters)
    taken_back = (now.states != "none" == placement.states) or (now.parameters != "none" == placement.parameters)
    if placement == now or placement.stage < now.stage or taken_back or placement.stage not in _stages_in_reach(run):
        return False
    if run.parallelism.world_size == 1 and placement.states == placement.parameters == "none":
        return False
    few_states = run.method.kind not in ("full", "freeze")
    return not (few_states and placement.states != now.states and placement.parameters == "none")


def _stages_in_reach(run: Run) -> tuple[int, ...]:
    """The stages that the run has or can be given: DeepSpeed takes every stage for weights that are not quantised."""
    if run.parallelism.engine != "deepspeed":
        return stages(run)
    others = (2, 3) if run.model.quantization.method == "none" else stages(run)
    return (*others, _stage(run)[0])


def _placed(run: Run, placement: Placement) -> dict[str, Any]:
    """The changes that say the placement, with what has to go with it: a saved model of stage 3 is gathered (DeepSpeed
    docs, stage3_gather_16bit_weights_on_model_save), and an offloaded optimizer runs on the CPU."""
    changes: dict[str, Any] = {"parallelism.zero.stage": placement.stage}
    if run.parallelism.engine != "deepspeed":
        changes = deepspeed_changes(str(run.precision.compute), placement.stage)
    elif placement.stage == 3 != run.parallelism.zero.stage and run.saving.enabled:
        changes["parallelism.zero.gather_16bit_weights_on_model_save"] = True
    if placement.stage == 3:
        changes |= quantization.stored_to_share(run)
    if placement.states != run.offload.optimizer:
        changes |= {"offload.optimizer": placement.states, **_deepspeed_adam(run)}
    if placement.parameters != run.offload.parameters:
        changes["offload.parameters"] = placement.parameters
    return changes


def _note(run: Run) -> str:
    engine = run.parallelism.engine
    launch = run.planning.single_gpu_launch if engine == "single" else ""
    return "; ".join(filter(None, (_NEEDS_DEEPSPEED if engine != "deepspeed" else "", launch)))


def deepspeed_changes(half: str, stage: int) -> dict[str, Any]:
    """What DeepSpeed's half precision makes of a run: half parameters and gradients, fp32 masters in the shards."""
    dtypes = ("model.weights_dtype", "precision.trainable_dtype", "method.adapter_dtype")
    return {
        "parallelism.engine": "deepspeed",
        "parallelism.zero.stage": stage,
        "precision.autocast": False,
        "precision.master_weights": True,
        **dict.fromkeys(dtypes, half),
    }


def stages(run: Run) -> tuple[int, ...]:
    """The ZeRO stages that can share this run. Of quantised weights bitsandbytes' 4 bits alone, below adapters: stage 2
    leaves them as they are, stage 3 shares them where the tensors that hold them are of the compute dtype (peft docs,
    accelerate/deepspeed.md, "Compatibility with bitsandbytes quantization + LoRA" and "Use PEFT QLoRA and DeepSpeed
    with ZeRO3"; LLaMA-Factory 0.9.5 refuses all others, model/model_utils/quantization.py:94-226)."""
    weights = run.model.quantization
    if run.precision.compute not in _HALF or run.stack.use_unsloth:
        return ()
    if weights.method == "none":
        return (2, 3)
    four = weights.method == "bnb" and weights.bits == 4 and run.method.kind == "lora"
    shared = weights.storage_dtype == run.precision.compute or bool(quantization.stored_to_share(run))
    return () if not four else (2, 3) if shared and not weights.prequantized else (2,)


MOVES = (zero, fsdp, checkpoints)
