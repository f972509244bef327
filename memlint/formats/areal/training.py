"""The engine that trains, its dtypes, its optimizer, adapters and recomputation.

AReaL 1.0.4 and 2.0.0 areal/engine/fsdp_engine.py; 0.3.1 areal/engine/base_hf_engine.py and fsdp_engine.py.
"""

from __future__ import annotations

from typing import Any

from memlint.formats.areal import behaviour
from memlint.formats.areal.config import ArealConfig
from memlint.formats.areal.placement import has_own_backend, placement
from memlint.formats.areal.releases import FP32_SHARDS, FUSED, REDUCES_EACH, ROOT_RESHARDS
from memlint.formats.fields import Fields, as_words
from memlint.formats.fsdp_groups import put_groups
from memlint.formats.target_patterns import put_targets
from memlint.formats.verl.model import DTYPES
from memlint.formats.vision_towers import apply_towers
from memlint.run import UNKNOWN, Entailed, Origin, Reading, Run

DTYPE, STORED, REDUCED = "actor.dtype", "actor.optimizer_dtype", "actor.grad_reduce_dtype"
RECOMPUTES, OPTIMIZER = "actor.gradient_checkpointing", "actor.optimizer.type"
HOST, LOADS = "actor.fsdp.offload_params", "actor.fsdp.memory_efficient_load"
ADAPTER, RANK, TARGETS = "actor.use_lora", "actor.lora_rank", "actor.target_modules"
DIVIDED, IN_FP32 = "actor.megatron.ddp.use_distributed_optimizer", "actor.megatron.ddp.grad_reduce_in_fp32"
PRECISION_AWARE = "actor.megatron.use_precision_aware_optimizer"
GRANULARITY = "actor.megatron.recompute_granularity"
BY_LAYER, TREES, KERNELS = "actor.fsdp.per_layer_optim_step", "actor.enable_tree_training", "actor.use_kernels"
CHUNK = "actor.logprobs_chunk_size"


def engine(config: ArealConfig) -> str:
    """fsdp, megatron or archon."""
    found = placement(config).trains
    return "fsdp" if found is None else found.engine


def uses_fsdp(config: ArealConfig) -> bool:
    return engine(config) == "fsdp"


def read_engine(fields: Fields, config: ArealConfig) -> None:
    if engine(config) == "megatron":
        _read_megatron(fields, config)
        return
    fields.behave(*behaviour.FSDP, *behaviour.LOSS)
    origin = config.origin(placement(config).key)
    put_groups(fields, True, origin, None, origin)
    _read_dtypes(fields, config)
    release = Origin("inferred", detail=f"AReaL {'.'.join(map(str, config.release))}, as keys or versions say")
    fields.put("parallelism.fsdp.reduces_each_backward", config.release >= REDUCES_EACH, release)
    fields.put("parallelism.fsdp.root_reshards", config.release >= ROOT_RESHARDS, release)
    fields.put("parallelism.fsdp.loads_whole", not config.flag(LOADS), config.origin(LOADS))
    fields.put("loss.chunk_tokens", config.integer(CHUNK) or 1024, config.origin(CHUNK))


def _read_dtypes(fields: Fields, config: ArealConfig) -> None:
    """Shards, gradients and optimizer states are in `dtype` until 1.0.4, in `optimizer_dtype` since 2.0.0; what layers
    compute in is gathered in `dtype`."""
    computed = DTYPES.get(config.word(DTYPE), UNKNOWN)
    key = STORED if config.release >= FP32_SHARDS else DTYPE
    stored = DTYPES.get(config.word(key), UNKNOWN)
    for field, dtype, said in (
        ("precision.compute", computed, DTYPE),
        ("model.weights_dtype", stored, key),
        ("precision.trainable_dtype", stored, key),
    ):
        if dtype is UNKNOWN:
            fields.unknown(field, config.unknown_origin(said).detail)
        else:
            fields.put(field, dtype, config.origin(said))
    fields.put("parallelism.fsdp.param_dtype", computed or "", config.origin(DTYPE))
    fields.put("parallelism.fsdp.reduce_dtype", DTYPES.get(config.word(REDUCED), ""), config.origin(REDUCED))


def _read_megatron(fields: Fields, config: ArealConfig) -> None:
    """Parameters in `dtype` beside fp32 ones, which the distributed optimizer divides (1.0.4
    areal/engine/megatron_engine.py, _create_optimizer)."""
    fields.behave(*behaviour.MEGATRON)
    dtype, origin = DTYPES.get(config.word(DTYPE), "bfloat16"), config.origin(DTYPE)
    for field in ("precision.compute", "model.weights_dtype", "precision.trainable_dtype"):
        fields.put(field, dtype, origin)
    fields.put("precision.master_weights", dtype != "float32", origin)
    halves = dtype != "float32" and not config.flag(IN_FP32)
    fields.put("precision.grad_dtype", dtype if halves else "float32", config.origin(IN_FP32))
    fields.put("parallelism.replicates_optimizer", not config.flag(DIVIDED), config.origin(DIVIDED))
    if config.flag(ADAPTER):
        fields.unknown("method.kind", "what Megatron's adapters train is not read")


def read_recomputation(fields: Fields, config: ArealConfig) -> None:
    value = config.get(RECOMPUTES)
    if value is UNKNOWN:
        fields.unknown("checkpointing.mode", config.unknown_origin(RECOMPUTES).detail)
        return
    on = config.flag(RECOMPUTES) and (uses_fsdp(config) or config.word(GRANULARITY) == "full")
    fields.put("checkpointing.mode", "full" if on else "none", config.origin(RECOMPUTES))


def read_optimizer(fields: Fields, config: ArealConfig) -> None:
    """AdamW, in torch's fused kernel since 0.5.0; `adam_bf16` has moments and a compensation in bf16."""
    if config.is_emptied("actor.optimizer"):
        fields.unknown("optimizer.name", "`actor.optimizer` is null: nothing trains")
        return
    word = config.word(OPTIMIZER)
    in_half = config.flag(PRECISION_AWARE) or word == "adam_bf16"
    if not uses_fsdp(config) and in_half:
        reason = "the precision-aware optimizer keeps parameters and moments in dtypes of its own"
        fields.unknown("optimizer.name", reason)
        fields.infer("precision.master_dtype", "float16", reason)
        return
    fused = "adamw_torch_fused" if config.release >= FUSED and uses_fsdp(config) else "adamw_torch"
    names = {"adam": fused, "adam_bf16": "adamw_anyprecision_bf16", "sgd": "sgd"}
    if word in names:
        fields.put("optimizer.name", names[word], config.origin(OPTIMIZER))
    else:
        fields.unknown("optimizer.name", config.unknown_origin(OPTIMIZER).detail)


def read_adapter(fields: Fields, config: ArealConfig) -> None:
    """PEFT's LoRA, in the dtype of its base (`autocast_adapter_dtype=False`)."""
    lora = config.flag(ADAPTER)
    fields.put("method.kind", "lora" if lora else "full", config.origin(ADAPTER))
    if not lora:
        return
    fields.put("method.rank", config.integer(RANK) or 32, config.origin(RANK))
    fields.infer("method.adapter_dtype", fields.get("model.weights_dtype"), "AReaL keeps it in the base's dtype")
    names = as_words(config.get(TARGETS))
    put_targets(fields, list(names) or ["all-linear"], config.origin(TARGETS), config.architecture)


def read_towers(fields: Fields, config: ArealConfig) -> None:
    """A vision tower trains with the rest."""
    apply_towers(fields, config.architecture, False, Origin("inferred", detail="AReaL freezes no tower"))


def read_unmodelled(fields: Fields, config: ArealConfig) -> None:
    """What makes a figure a bound, or leaves none."""
    what, adds = _unmodelled(config)
    if what:
        fields.infer("stack.unmodelled", what, "the file")
        fields.infer("stack.unmodelled_adds", adds, "the file")


def _unmodelled(config: ArealConfig) -> tuple[str, bool]:
    """What is not modelled, and whether it only adds to weights, gradients and optimizer states."""
    found = placement(config).trains
    if engine(config) == "archon":
        parts = found is not None and (found.pipeline > 1 or found.expert > 1)
        return "AReaL's Archon engine", not parts
    if not uses_fsdp(config):
        return "", False
    if config.flag(BY_LAYER):
        return f"optimizer states that wait in host memory (`{BY_LAYER}`)", False
    if found is not None and found.expert > 1:
        return "experts that GPUs share under FSDP", False
    if found is not None and found.tensor > 1:
        return "what layers keep whose matrices DTensor divides", True
    if config.flag(TREES):
        return f"sequences that share their beginnings (`{TREES}`)", True
    if config.flag(KERNELS):
        return f"kernels of the hub (`{KERNELS}`)", True
    return _other_losses(config), True


def _other_losses(config: ArealConfig) -> str:
    algorithm = config.algorithm()
    if algorithm == "dpo":
        return "what AReaL's DPO keeps"
    if algorithm == "rw":
        return "what AReaL's reward model keeps"
    if config.has_section("teacher"):
        return "a teacher beside the actor"
    return "" if _has_own_reference(config) else "a reference that is another model (`ref.path`)"


def _has_own_reference(config: ArealConfig) -> bool:
    """Whether the reference, if there is one, is the actor's model."""
    own: Any = config.value("ref.path")
    return own is None or own == config.value("actor.path") or not config.has_section("ref")


def readings(config: ArealConfig, run: Run) -> tuple[Reading, ...]:
    """A file for 2.0.0 may be for 1.0.3 or 1.0.4 as well, which keep shards in `dtype`."""
    half = DTYPES.get(config.word(DTYPE))
    newest = config.release >= FP32_SHARDS and not config.stated and has_own_backend(config)
    if not newest or not uses_fsdp(config) or config.written(STORED) or half in (None, "float32"):
        return ()
    changes = [("model.weights_dtype", half), ("precision.trainable_dtype", half)]
    changes += [("method.adapter_dtype", half)] if run.method.kind == "lora" else []
    return (
        Reading(
            "nobody says which release of AReaL runs: those before 2.0 keep shards in `dtype`",
            f"with shards and optimizer states in {half}",
            "with shards and optimizer states in fp32",
            tuple(changes),
            (("model.weights_dtype", "float32"),),
            settled="holds where the release is stated: areal<2 in the requirements",
            settled_itself="holds where the release is stated, or `optimizer_dtype: float32`",
        ),
    )


def adapters_of_plans(fields: Fields) -> tuple[Entailed, ...]:
    """An adapter that a plan trains instead, in the dtype of its base."""
    dtype = fields.get("model.weights_dtype", "float32")
    return (Entailed((("method.kind", "lora"),), (("method.adapter_dtype", dtype),)),)
