"""Model, precision, optimizer and recomputation of a NeMo-RL file under its DTensor engine (FSDP2)."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields, as_bool, as_words
from memlint.formats.nemo_rl import megatron
from memlint.formats.nemo_rl.behaviour import DTENSOR
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.nemo_rl.families import has_own_code
from memlint.formats.nemo_rl.placement import EXPERTS
from memlint.formats.target_patterns import put_targets
from memlint.formats.verl.model import DTYPES
from memlint.run import UNKNOWN, Origin, Reading, Run

PRECISION = "policy.precision"
RECOMPUTES = "policy.dtensor_cfg.activation_checkpointing"
RECOMPUTES_IN_MEGATRON = "policy.megatron_cfg.activation_checkpointing"
OPTIMIZER, ARGUMENTS = "policy.optimizer.name", "policy.optimizer.kwargs"
ADAPTER = "policy.dtensor_cfg.lora_cfg"
AUTOMODEL = "policy.dtensor_cfg.automodel_kwargs"
COPIES = "policy.dtensor_cfg.dp_replicate_size"
PENALTY = "loss_fn.reference_policy_kl_penalty"
OVERRIDES = "hf_config_overrides"
ALLOCATOR = "policy.dtensor_cfg.env_vars.PYTORCH_CUDA_ALLOC_CONF"
_STAGES = {"grpo": "grpo", "ppo": "grpo", "dpo": "dpo", "rm": "rm"}
# Since this release NeMo Automodel checkpoints whole layers of transformers' models (Automodel 92635e74, that 0.6.0
# pins, and 277a8a8d of 0.4.0: nemo_automodel/components/distributed/parallelizer.py).
_WHOLE_LAYERS_SINCE = (0, 6)


# transformers in the workers of each release (pyproject.toml; since 0.6 that of NeMo Automodel's workers).
_TRANSFORMERS = (((0, 7), (5, 5)), ((0, 6), (5, 3)), ((0, 5), (4, 57)), ((0, 4), (4, 55)), ((0, 0), (4, 51)))


def read_stack(fields: Fields, config: NemoConfig) -> None:
    """The release of transformers that NeMo-RL pins, unless somebody states another."""
    if "transformers" in config.context.versions:
        return
    release = config.stated or _TRANSFORMERS[0][0]
    pinned = next(version for since, version in _TRANSFORMERS if release >= since)
    fields.infer("stack.transformers", pinned, f"NeMo-RL {'.'.join(map(str, release))} pins it")


def read_engine(fields: Fields, config: NemoConfig) -> None:
    """DTensor's FSDP2, or Megatron-LM."""
    if config.engine == "megatron":
        megatron.read_engine(fields, config)
    elif config.engine == "dtensor":
        fields.behave(*DTENSOR)
        _read_precision(fields, config)
        _read_copies(fields, config)
        _read_attention(fields, config)
        fields.put("rollout.gathers_for_log_probs", not config.is_v2, config.origin("policy.dtensor_cfg._v2"))
    else:
        open_key = config.is_unknown("policy.megatron_cfg.enabled", "policy.dtensor_cfg.enabled")
        reason = config.origin(open_key).detail if open_key else ""
        what = reason or "neither DTensor nor Megatron-LM is switched on; NeMo-RL up to 0.2 takes FSDP1 then"
        fields.infer("stack.unmodelled", what, "`policy.dtensor_cfg.enabled` and `policy.megatron_cfg.enabled`")
        for field in ("model.weights_dtype", "precision.trainable_dtype", "precision.compute"):
            fields.unknown(field, what)


def _read_precision(fields: Fields, config: NemoConfig) -> None:
    """What FSDP2 gathers and autocast computes in; shards stay fp32."""
    dtype = DTYPES.get(config.word(PRECISION))
    if dtype is None:
        reason = config.origin(PRECISION).detail or f"`{PRECISION}` is no dtype that is known here"
        fields.unknown("precision.compute", reason)
        fields.unknown("precision.autocast", reason)
        return
    fields.put("precision.compute", dtype, config.origin(PRECISION))
    fields.put("precision.autocast", dtype != "float32", config.origin(PRECISION))
    fields.put("parallelism.fsdp.param_dtype", dtype, config.origin(PRECISION))


def _read_copies(fields: Fields, config: NemoConfig) -> None:
    """`dp_replicate_size` copies of the model, each divided over the rest of the data-parallel ranks."""
    copies, ranks = config.integer(COPIES) or 1, fields.get("parallelism.data_parallel_size")
    hybrid = copies > 1 and isinstance(ranks, int)
    fields.put("parallelism.fsdp.strategy", "HYBRID_SHARD" if hybrid else "FULL_SHARD", config.origin(COPIES))
    if hybrid:
        fields.put("parallelism.fsdp.shard_group_size", max(1, ranks // copies), config.origin(COPIES))


def _read_attention(fields: Fields, config: NemoConfig) -> None:
    """FlashAttention where sequences are packed, else what transformers takes by itself."""
    key = "policy.sequence_packing.enabled"
    name = "flash_attention_2" if config.flag(key) else "sdpa"
    fields.put("attention.implementation", name, config.origin(key))


def read_recomputation(fields: Fields, config: NemoConfig) -> None:
    """Norms, attention and MLP one by one, or whole layers: see `_WHOLE_LAYERS_SINCE`."""
    key = RECOMPUTES_IN_MEGATRON if config.engine == "megatron" else RECOMPUTES
    value = config.get(key)
    if value is UNKNOWN:
        fields.unknown("checkpointing.mode", config.origin(key).detail or f"`{key}` is a placeholder")
        return
    fields.put("checkpointing.mode", "full" if as_bool(value) else "none", config.origin(key))
    if config.engine == "megatron":
        return
    by_parts = not config.is_v2 or () < config.stated < _WHOLE_LAYERS_SINCE
    fields.infer("checkpointing.by_parts", by_parts, "the worker that `_v2` chooses, and NeMo-RL's release")
    fields.infer("checkpointing.reentrant", not by_parts, "the worker that `_v2` chooses, and NeMo-RL's release")


def readings(config: NemoConfig, run: Run) -> tuple[Reading, ...]:
    """A file for Automodel may be of a release that checkpointed parts of layers, unless it has a key of later ones."""
    later = config.has_section(*AUTOMODEL.split("."))
    if config.engine != "dtensor" or not config.is_v2 or config.stated or later or run.checkpointing.mode != "full":
        return ()
    return (
        Reading(
            "nobody says which release of NeMo-RL runs: those before 0.6 checkpoint parts of layers",
            "with each norm, attention and MLP checkpointed by itself",
            "with whole layers checkpointed",
            (("checkpointing.by_parts", True), ("checkpointing.reentrant", False)),
            (("checkpointing.mode", "full"),),
            settled_itself="holds where the release is stated: nemo-rl>=0.6 in the requirements",
        ),
    )


def read_stage(fields: Fields, config: NemoConfig) -> None:
    """What trains, and the reference, whose weights wait in host memory and take the policy's place for their own
    forward (nemo_rl/models/policy/workers/dtensor_policy_worker.py, use_reference_model)."""
    algorithm = config.algorithm()
    fields.infer("method.stage", _STAGES.get(algorithm, "sft"), f"the section `{algorithm}`")
    if algorithm == "rm":
        fields.infer("method.reward_head", "score", "NeMo-RL 0.7.0: AutoModelForSequenceClassification")
    compares = algorithm == "dpo" or (algorithm == "grpo" and (config.get(PENALTY) or 0) != 0)
    fields.put("method.reference_model", "precomputed" if compares else "none", config.origin(PENALTY))


def read_optimizer(fields: Fields, config: NemoConfig) -> None:
    """A class of torch's by its name; `fused` and `foreach` are among its arguments."""
    if config.engine == "megatron":
        megatron.read_optimizer(fields, config)
        return
    name = config.get(OPTIMIZER)
    if not isinstance(name, str) or not name:
        fields.unknown("optimizer.name", config.origin(OPTIMIZER).detail or f"`{OPTIMIZER}` is not set")
        return
    known = name.lower()
    fused = as_bool(config.get(f"{ARGUMENTS}.fused")) and known in ("torch.optim.adamw", "torch.optim.adam")
    fields.put("optimizer.name", "adamw_torch_fused" if fused else known, config.origin(OPTIMIZER))
    if as_bool(config.get(f"{ARGUMENTS}.foreach")) is False:
        fields.put("optimizer.foreach", False, config.origin(f"{ARGUMENTS}.foreach"))


def read_adapter(fields: Fields, config: NemoConfig) -> None:
    """Automodel's LoRA: fp32 adapters beside fp32 weights, which FSDP wants in one dtype."""
    key, rank = f"{ADAPTER}.enabled", config.integer(f"{ADAPTER}.dim")
    if config.engine != "dtensor" or not config.flag(key):
        return
    fields.put("method.kind", "lora", config.origin(key))
    fields.put("method.rank", rank or 8, config.origin(f"{ADAPTER}.dim"))
    fields.infer("method.adapter_dtype", "float32", "NeMo-RL 0.7.0 nemo_rl/models/automodel/setup.py: lora_dtype")
    names = as_words(config.get(f"{ADAPTER}.target_modules"))
    every = not names or as_bool(config.get(f"{ADAPTER}.match_all_linear"))
    targets = ["all-linear"] if every else list(names)
    put_targets(fields, targets, config.origin(f"{ADAPTER}.target_modules"), config.architecture)


def read_allocator(fields: Fields, config: NemoConfig) -> None:
    value = config.get(ALLOCATOR)
    if isinstance(value, str) and "expandable_segments:true" in value.lower():
        fields.put("stack.expandable_segments", True, config.origin(ALLOCATOR))


def read_unmodelled(fields: Fields, config: NemoConfig) -> None:
    """What makes a figure a bound: it adds to what is counted, or replaces the code that is. Experts that are divided
    over GPUs leave nothing to count on."""
    if config.engine != "dtensor":
        return
    if (config.integer(EXPERTS["dtensor"]) or 1) > 1:
        fields.infer("stack.unmodelled", "experts that GPUs share (`expert_parallel_size`)", "the file")
        return
    what = _other_code(fields, config) or _other_models(config)
    if what:
        fields.infer("stack.unmodelled", what, "the file")
        fields.infer("stack.unmodelled_adds", True, "the file")


def _other_code(fields: Fields, config: NemoConfig) -> str:
    """Why the layers run in code that is not transformers', "" where they do not."""
    architecture = config.architecture
    if (config.integer("policy.dtensor_cfg.tensor_parallel_size") or 1) > 1:
        return "what layers keep whose matrices DTensor divides (`tensor_parallel_size`)"
    if fields.get("method.kind") == "lora":
        return "NeMo Automodel's LoRA kernels"
    if config.flag(f"{AUTOMODEL}.use_liger_kernel") or config.has(*AUTOMODEL.split("."), "backend"):
        return "other kernels in the model (`automodel_kwargs`)"
    if config.get("policy.quant_cfg"):
        return "quantisation in training (`quant_cfg`)"
    changed = _changed_shape(config)
    if architecture is None or changed:
        return changed
    if any(layer.attention.kind != "attention" for layer in architecture.layer_types):
        return f"how NeMo-RL divides and recomputes layers of {architecture.class_name}"
    if architecture.towers:
        return "what a vision tower keeps in NeMo-RL"
    own = config.is_v2 and not config.flag(f"{AUTOMODEL}.force_hf")
    if any(layer.mlp.kind == "moe" for layer in architecture.layer_types):
        return "experts in NeMo Automodel's code" if own else "experts under DTensor"
    if own and has_own_code(architecture.class_name):
        return f"NeMo Automodel's own code of {architecture.class_name}"
    return _odd_parts(fields, architecture)


_OF_POSITIONS = ("max_position_embeddings", "rope_scaling", "rope_theta", "rope_parameters")


def _changed_shape(config: NemoConfig) -> str:
    """A key of `hf_config_overrides` that may change more than positions, "" where there is none."""
    given = (one for one in (layer.get(OVERRIDES) for layer in config.mappings("policy")) if isinstance(one, dict))
    key = next((str(key) for one in given for key in one if key not in _OF_POSITIONS), "")
    return f"a model with another `{key}` (`{OVERRIDES}`)" if key else ""


def read_positions(fields: Fields, config: NemoConfig) -> None:
    """Positions that the file gives to the model beyond those of its own config."""
    keys = (f"policy.{OVERRIDES}.max_position_embeddings", f"policy.{OVERRIDES}.rope_scaling")
    key = next((one for one in keys if config.has(*one.split("."))), "")
    if key:
        fields.infer("sequence.rope_scaling", "overridden", f"`{key}`")


def _odd_parts(fields: Fields, architecture: Any) -> str:
    """Why layers that are checkpointed in parts keep something else, "" where they do not: those parts are two norms,
    attention and an MLP."""
    if fields.get("checkpointing.mode") != "full" or not fields.get("checkpointing.by_parts"):
        return ""
    usual = all(layer.norms == 2 and not layer.parallel and layer.streams == 1 for layer in architecture.layer_types)
    return "" if usual else "what layers keep of parts that are not checkpointed"


def _other_models(config: NemoConfig) -> str:
    algorithm = config.algorithm()
    if algorithm == "distillation" or config.has("on_policy_distillation", "teacher"):
        return "a teacher beside the policy"
    return "a value model beside the policy" if algorithm == "ppo" else ""


def read_validation(fields: Fields, config: NemoConfig) -> None:
    """SFT computes its loss of a validation set, in micro-batches of their own."""
    period, rows = config.integer("sft.val_period"), config.integer("sft.val_micro_batch_size")
    if config.algorithm() != "sft" or not period or not rows:
        fields.put("evaluation.enabled", False, Origin("inferred", detail="validation generates, or needs less"))
        return
    fields.put("evaluation.enabled", True, config.origin("sft.val_period"))
    fields.put("evaluation.batch_size", rows, config.origin("sft.val_micro_batch_size"))
