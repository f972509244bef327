"""Moves that trade the GPU's memory for the host's: checkpoints, optimizer states, parameters, shards.

What the host then holds is in the estimate (`host_bytes`); the planner tells it, and refuses what no host has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.fixes.proposed_change import ProposedChange
from memlint.run import Run

_HALF = ("bfloat16", "float16")
_NEEDS_DEEPSPEED = "the deepspeed package must be installed"


def checkpoints(run: Run) -> Iterator[ProposedChange]:
    """Checkpoints wait in host memory until the backward wants them, by the framework's own way.

    A layer computes for longer than its input takes over the bus, so copies hide: 10 % is an upper figure. Under
    Unsloth a script's own argument decides.
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
    yield ProposedChange("keep checkpoints in host memory", changes, 1.1, group="checkpoint-offload")


def fsdp(run: Run) -> Iterator[ProposedChange]:
    """FSDP's shards in host memory (PyTorch docs, FullyShardedDataParallel, CPUOffload), and shards of everything."""
    own = run.parallelism.fsdp
    if run.parallelism.engine != "fsdp":
        return
    if own.strategy in ("SHARD_GRAD_OP", "NO_SHARD") and own.version == 1:
        changes: dict[str, Any] = {"parallelism.fsdp.strategy": "FULL_SHARD"}
        yield ProposedChange(f"FSDP {own.strategy} -> FULL_SHARD", changes, 1.2, group="fsdp-strategy")
    if own.version == 2 and not own.reshard_after_forward:
        yield ProposedChange(
            "reshard after the forward", {"parallelism.fsdp.reshard_after_forward": True}, 1.2, group="fsdp-strategy"
        )
    if not own.cpu_offload:
        stepping = _steps_there(run)
        title = "FSDP shards in host memory" + (", with PyTorch's AdamW" if stepping else "")
        changes = {"parallelism.fsdp.cpu_offload": True, **stepping}
        yield ProposedChange(title, changes, 2.0, safe=False, group="offload-parameters")


def _steps_there(run: Run) -> dict[str, Any]:
    """An optimizer that can run on the host. bitsandbytes 0.50.2 has its 8-bit step for CUDA and XPU alone
    (backends/*/ops.py, register_kernel); under DeepSpeed's offload accelerate makes any AdamW DeepSpeed's own (1.15
    utils/deepspeed.py, map_pytorch_optim_to_deepspeed), whatever the file goes on saying."""
    name = run.optimizer.name
    elsewhere = isinstance(name, str) and ("8bit" in name or name.startswith("paged_")) and "adam" in name
    return {"optimizer.name": "adamw_torch"} if elsewhere else {}


def zero(run: Run) -> Iterator[ProposedChange]:
    """ZeRO-Offload keeps optimizer states in host RAM (Ren et al. 2021, arXiv 2101.06840): slower steps.

    The result is the same, but another optimizer runs and the host needs the room: not to be changed unasked. Both at
    once is a step of its own, for it is what frameworks ship a file for (LLaMA-Factory 0.9.5
    examples/deepspeed/ds_z3_offload_config.json, Axolotl 0.19 deepspeed_configs/zero3_bf16_cpuoffload_all.json).
    """
    stage = run.parallelism.zero.stage
    if run.parallelism.engine != "deepspeed" or not isinstance(stage, int) or stage < 2:
        return
    states, parameters = run.offload.optimizer == "none", stage == 3 and run.offload.parameters == "none"
    if states:
        changes = {"offload.optimizer": "cpu"}
        yield ProposedChange("optimizer states in host memory", changes, 1.5, safe=False, group="offload-optimizer")
    if parameters:
        changes = {"offload.parameters": "cpu"}
        yield ProposedChange("parameters in host memory", changes, 1.8, safe=False, group="offload-parameters")
    if states and parameters:
        yield ProposedChange(
            "parameters and optimizer states in host memory", _both(), 2.2, safe=False, group="offload-parameters"
        )


def _both() -> dict[str, Any]:
    return {"offload.optimizer": "cpu", "offload.parameters": "cpu"}


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


def sharding(run: Run) -> Iterator[ProposedChange]:
    """Data parallelism alone keeps everything on each GPU; ZeRO shards it (Rajbhandari et al. 2020, 1910.02054)."""
    world, half = run.parallelism.world_size, run.precision.compute
    if run.parallelism.engine != "ddp" or not isinstance(world, int) or world < 2:
        return
    shared = {2: 1.05, 3: 1.25}
    for stage in stages(run):
        changes, speed = {**deepspeed_changes(str(half), stage), **stored_to_share(run)}, shared[stage]
        title = f"shard over the {world} GPUs with ZeRO-{stage}"
        yield ProposedChange(title, changes, speed, "none", False, "zero", _NEEDS_DEEPSPEED)


def single_gpu(run: Run) -> Iterator[ProposedChange]:
    """One GPU with the host behind it: ZeRO-Offload trains models of over 13 billion parameters on one V100 (Ren et al.
    2021, arXiv 2101.06840, abstract). With the parameters there as well every layer crosses the bus in the forward and
    again in the backward, 4 bytes a parameter, which small batches wait for (Rajbhandari et al. 2021, ZeRO-Infinity,
    arXiv 2104.07857, section 4)."""
    if run.parallelism.engine != "single" or run.parallelism.world_size != 1 or 2 not in stages(run):
        return
    half, note = str(run.precision.compute), "; ".join(filter(None, (_NEEDS_DEEPSPEED, run.planning.single_gpu_launch)))
    if run.method.kind in ("full", "freeze"):  # adapters have states of next to nothing
        states = {**deepspeed_changes(half, 2), "offload.optimizer": "cpu", **_steps_there(run)}
        yield ProposedChange(
            "ZeRO-2 with the optimizer states in host memory", states, 1.5, "none", False, "zero", note
        )
    everything = {**deepspeed_changes(half, 3), **_both(), **_steps_there(run)}
    title = "ZeRO-3 with parameters and optimizer states in host memory"
    yield ProposedChange(title, everything, 3.0, "none", False, "zero", note)


def stages(run: Run) -> tuple[int, ...]:
    """The ZeRO stages that can share this run's weights. Of quantised ones bitsandbytes' 4 bits alone, at stage 3, and
    where the tensors that hold them are of the compute dtype (peft docs, accelerate/deepspeed.md, "Use PEFT QLoRA and
    DeepSpeed with ZeRO3"; LLaMA-Factory 0.9.5 refuses all others, model/model_utils/quantization.py:94-226)."""
    quantization = run.model.quantization
    if run.precision.compute not in _HALF or run.stack.use_unsloth:
        return ()
    if quantization.method == "none":
        return (2, 3)
    four = quantization.method == "bnb" and quantization.bits == 4 and not quantization.prequantized
    known = quantization.storage_dtype == run.precision.compute or bool(stored_to_share(run))
    return (3,) if four and known and run.method.kind == "lora" else ()


def stored_to_share(run: Run) -> dict[str, Any]:
    """What keeps 4-bit weights in tensors of the compute dtype, where they are not yet and the config can say it."""
    quantization, half = run.model.quantization, run.precision.compute
    if quantization.method == "none" or quantization.storage_dtype == half:
        return {}
    return {"model.quantization.storage_dtype": half} if run.planning.stores_4_bits_in_half else {}


MOVES = (checkpoints, sharding, single_gpu, fsdp, zero)
