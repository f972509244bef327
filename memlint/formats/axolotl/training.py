"""Axolotl: stage, sequence, checkpointing, loss, evaluation, and features whose memory is not modelled."""

from __future__ import annotations

from typing import Any

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.behaviour import BEHAVIOUR
from memlint.formats.axolotl.config import NAME, Config, default_origin, evaluates
from memlint.formats.axolotl.experts import linearizes, unknown_of_packing
from memlint.formats.axolotl.model import cuts, dequantizes
from memlint.formats.fields import Fields, as_bool, as_int, as_number
from memlint.run import Origin

_EXPANDABLE = (0, 5)
_STAGES = {"dpo": "dpo", "ipo": "dpo", "kto": "kto", "orpo": "orpo", "simpo": "simpo", "grpo": "grpo", "gdpo": "grpo"}


def apply_stack(fields: Fields, config: Config) -> None:
    fields.put("stack.framework", NAME, Origin("inferred", detail="the file's keys"))
    fields.behave(*BEHAVIOUR)
    origin = config.given_away or default_origin(config, "what its packaging allows")
    said = config.context.version_origins
    for name in ("transformers", "torch", "peft", "accelerate", "trl", "deepspeed"):
        where = said.get(name, Origin("setting")) if name in config.context.versions else origin
        fields.put(f"stack.{name}", tuple(config.versions[name]), where)
    where = said.get(NAME, Origin("setting")) if NAME in config.context.versions else origin
    fields.put("stack.framework_version", tuple(config.versions[NAME]), where)
    # utils/__init__.py:81, set_pytorch_cuda_alloc_conf (0.5 to 0.6: train.py:60), unless the environment says otherwise
    segments = config.release >= _EXPANDABLE and config.versions["torch"] >= (2, 2)
    fields.put("stack.expandable_segments", segments, default_origin(config, "PYTORCH_ALLOC_CONF"))


def apply_batch(fields: Fields, config: Config) -> None:
    """What is no size is told by the file's own name for it."""
    for key in ("micro_batch_size", "gradient_accumulation_steps"):
        value = config.own.integer(key)
        if key in config.held:
            fields.unknown(f"batch.{key}", f"`{key}` is a placeholder")
        elif value is None or value < 1:
            fields.unknown(f"batch.{key}", f"`{key}: {config.own.get(key)!r}` is no whole number >= 1")


def apply_stage(fields: Fields, config: Config) -> None:
    if config.own.flag("reward_model"):
        config.put(fields, "method.stage", "reward_model", "rm")
    elif config.rl:
        config.put(fields, "method.stage", "rl", _STAGES.get(config.rl, config.rl))
    elif config.own.get("pretraining_dataset"):
        config.put(fields, "method.stage", "pretraining_dataset", "pt")
    else:
        fields.put("method.stage", "sft", config.own.origin("rl"))
    _reference(fields, config)


def _reference(fields: Fields, config: Config) -> None:
    """With adapters the base is the reference, without them a copy. Axolotl loads the model again for every method but
    ORPO (train.py:124, setup_reference_model); only DPO's trainer takes that one (core/builders/rl.py:77), KTO's and
    GRPO's make their own, and what nobody took is gone when training starts."""
    if config.rl not in ("dpo", "ipo", "kto", "grpo", "gdpo") or not _has_penalty(config):
        fields.infer("method.reference_model", "none", "no reference is kept")
    elif config.adapter and not config.own.flag("rl_adapter_ref_model"):
        fields.infer("method.reference_model", "shared", "the adapter is switched off for the reference")
    else:
        fields.infer("method.reference_model", "copy", "the model is loaded a second time")


# trl 0.17 trainer/grpo_config.py: `beta` 0.0 means no reference model; 0.04 before.
_NO_PENALTY_UNASKED = (0, 17)


def _has_penalty(config: Config) -> bool:
    """GRPO holds to its reference only where `trl.beta`, else `rl_beta` (core/builders/rl.py:129) asks it to."""
    if config.rl not in ("grpo", "gdpo"):
        return True
    said = config.below("trl").get("beta")
    beta = as_number(config.own.get("rl_beta") if said is None else said)
    return config.versions["trl"] < _NO_PENALTY_UNASKED if beta is None else bool(beta)


def apply_sequence(fields: Fields, config: Config) -> None:
    """`sequence_len` bounds every sample; packed rows and padded ones are that long."""
    if fields.get("method.stage") == "grpo":
        _generation(fields, config)
        return
    length = config.own.integer("sequence_len")
    if length is None or length < 1:
        fields.unknown("sequence.length", f"`sequence_len: {config.own.get('sequence_len')!r}` is no length")
    else:
        config.put(fields, "sequence.length", "sequence_len", length)
    packed = config.own.flag("sample_packing")
    config.put(fields, "sequence.packing", "sample_packing", packed)
    config.put(fields, "sequence.neat_packing", "sample_packing", packed)
    padded = as_bool(config.own.get("pad_to_sequence_len"))
    if padded is None and fields.get("method.stage") == "rm":  # validation.py:243, hint_reward_model_pad
        padded = config.release >= (0, 5)
    key = "pad_to_sequence_len" if padded is not None else "sample_packing"
    config.put(fields, "sequence.length_is_bound", key, not (packed if padded is None else padded))


def _generation(fields: Fields, config: Config) -> None:
    """core/trainers/grpo/__init__.py: prompts are not cut."""
    trl = config.below("trl")
    origin = config.own.origin("trl")
    completion = as_int(trl.get("max_completion_length")) or (512 if config.versions["trl"] >= (1,) else 256)
    fields.put("sequence.max_new_tokens", completion, origin)
    fields.put("method.num_generations", as_int(trl.get("num_generations")) or 8, origin)
    fields.unknown("sequence.length", "prompts are not bounded: GRPO's rows are as long as the data says")
    if not as_bool(trl.get("use_vllm")):
        fields.put("method.generator", "model", origin)
        return
    colocated = trl.get("vllm_mode") == "colocate"
    fields.put("method.generator", "vllm_colocate" if colocated else "vllm", origin)
    share = as_number(config.below("vllm").get("gpu_memory_utilization"))
    if colocated and not as_bool(trl.get("vllm_enable_sleep_mode")):
        fields.put("method.generator_share", float(share or 0.9), config.own.origin("vllm"))


# 0.4 core/trainer_builder.py:647 has `use_reentrant: False` for all.
_REENTRANT = (0, 5)
_OFFLOADING = ("offload", "offload_disk", "unsloth")
# Offloading by saved-tensor hooks; before, `offload` replaced torch's function (monkeypatch/gradient_checkpointing).
_OFFLOADS_BY_HOOKS = (0, 12)


def apply_checkpointing(fields: Fields, config: Config) -> None:
    """Reentrant unless something says otherwise, but for reinforcement learning and Gemma 4 (utils/config/__init__.py:
    392-424; core/builders/base.py:565). Offloading moves what checkpoints keep: for adapters the loader has switched
    them on already (loaders/model.py:464), without them it wraps the layers (:368)."""
    key = "gradient_checkpointing"
    word = config.own.word(key)
    on = config.own.flag(key) or word in _OFFLOADING
    config.put(fields, "checkpointing.mode", key, "full" if on else "none")
    kwargs = config.below("gradient_checkpointing_kwargs")
    said = as_bool(kwargs.get("use_reentrant"))
    where = config.own.origin("gradient_checkpointing_kwargs" if said is not None else key)
    plain = not config.rl and not config.own.get("unfrozen_parameters") and config.release >= _REENTRANT
    reentrant = (plain if said is None else said) and config.family not in families.NEVER_REENTRANT
    fields.put("checkpointing.reentrant", reentrant, where)
    if on and config.own.get("selective_checkpointing"):
        config.put(fields, "checkpointing.mode", "selective_checkpointing", "selective")
    elif on:
        _offloading(fields, config, word)


def apply_tiles(fields: Fields, config: Config) -> None:
    """`tiled_mlp`: the MLP goes through slices of the row, in the backward again (monkeypatch/tiled_mlp/patch.py:60):
    as many as it says, else a slice for 32,768 tokens, before for as many tokens as the model is wide. What it takes
    is bounded where layers are checkpointed and nothing is cast in between."""
    plain = fields.get("method.kind") == "full" and not fields.get("precision.autocast")
    if not (config.own.flag("tiled_mlp") and plain and fields.get("checkpointing.mode") == "full"):
        return
    length, micro = fields.get("sequence.length"), fields.get("batch.micro_batch_size")
    wide = getattr(config.architecture, "hidden_size", 0)
    if not (isinstance(length, int) and isinstance(micro, int) and wide):
        return
    tiles = config.whole("tiled_mlp_num_shards") or -(-length * micro // min(wide, _TILE))
    config.put(fields, "checkpointing.mlp_tiles", "tiled_mlp", tiles)


_TILE = 32768


def _offloading(fields: Fields, config: Config, word: str) -> None:
    asked = config.own.get("activation_offloading")
    key = "activation_offloading" if asked else "gradient_checkpointing"
    if not asked and word not in _OFFLOADING:
        return
    config.put(fields, "checkpointing.offload", key, True)
    said = as_bool(config.below("gradient_checkpointing_kwargs").get("use_reentrant"))
    wrapped = not config.adapter and asked != "hidden_states" and config.release >= _OFFLOADS_BY_HOOKS
    if wrapped or (asked == "hidden_states" and said is None):  # validation.py:1660; torch's wrapper is never reentrant
        config.put(fields, "checkpointing.reentrant", key, False)


# What a plug-in's keys need beside them: without it they are no keys at all, and ignored.
PLUGIN_OF = {
    **dict.fromkeys(
        (
            *("liger_rope", "liger_rms_norm", "liger_layer_norm", "liger_swiglu", "liger_glu_activation"),
            *("liger_cross_entropy", "liger_fused_linear_cross_entropy"),
        ),
        "LigerPlugin",
    ),
    "cut_cross_entropy": "CutCrossEntropyPlugin",
}


def apply_loss(fields: Fields, config: Config) -> None:
    """The model's own loss unless a plug-in replaces it (integrations/liger, integrations/cut_cross_entropy)."""
    fields.put("loss.upcast_logits", True, Origin("default", detail="transformers loss_utils.py: logits.float()"))
    kind, key = _loss(config)
    if config.rl or fields.get("method.stage") == "rm":
        fields.infer("loss.kind", "plain", "preferences and rewards read logits: fused losses need labels")
    else:
        config.put(fields, "loss.kind", key, kind)
    on = [config.own.flag(key) and _has_plugin(config, key) for key in ("liger_rms_norm", "liger_glu_activation")]
    on[1] = on[1] or (config.own.flag("liger_swiglu") and _has_plugin(config, "liger_swiglu"))
    config.put(fields, "loss.liger_kernels", "liger_rms_norm", all(on))
    config.put(fields, "loss.in_chunks", "chunked_cross_entropy", config.own.flag("chunked_cross_entropy"))


def _loss(config: Config) -> tuple[str, str]:
    named = (
        ("liger_fused_linear_cross_entropy", "liger"),
        ("liger_cross_entropy", "fused_ce"),
    )
    for key, kind in named:
        if config.own.flag(key) and _has_plugin(config, key):
            return kind, key
    if cuts(config):
        return "cut", "cut_cross_entropy"
    return "plain", "liger_fused_linear_cross_entropy"


def _has_plugin(config: Config, key: str) -> bool:
    return PLUGIN_OF[key] in config.plugins


def apply_evaluation(fields: Fields, config: Config) -> None:
    """A batch as in training unless said; the origins of what TrainingArguments know by other names."""
    key = "test_datasets" if config.own.get("test_datasets") else "val_set_size"
    config.put(
        fields, "evaluation.enabled", key, bool(fields.get("evaluation.enabled", False)) and evaluates(config.own)
    )
    size = "eval_batch_size" if config.own.get("eval_batch_size") else "micro_batch_size"
    config.put(fields, "evaluation.batch_size", size, fields.get("evaluation.batch_size"))
    samples = config.own.number("val_set_size")
    if samples is not None and samples >= 1:
        config.put(fields, "evaluation.samples", "val_set_size", int(samples))


def apply_optimizer(fields: Fields, config: Config) -> None:
    if "optimizer" in config.held:
        fields.unknown("optimizer.name", "`optimizer` is a placeholder")
        return
    word = config.own.word("optimizer")
    name = {"ao_adamw_4bit": "adamw_torch_4bit", "ao_adamw_8bit": "adamw_torch_8bit"}.get(word, word)
    if name:
        config.put(fields, "optimizer.name", "optimizer", name)
    if config.own.written("qgalore_rank"):
        config.put(fields, "optimizer.rank", "qgalore_rank", config.whole("qgalore_rank"))


# Key -> what it does that no figure covers.
_UNMODELLED = {
    "layer_offloading": "layers come and go between host and GPU",
    "qat": "fake quantisation keeps copies of weights and activations",
    "use_onebitllms": "BitNet's linear layers",
    "dpo_use_liger_kernel": "Liger's fused DPO loss",
    "relora": "ReLoRA merges and resets adapters while it trains",
    "relora_steps": "ReLoRA merges and resets adapters while it trains",
    "use_scattermoe": "ScatterMoE's expert kernels",
    "use_sonicmoe": "SonicMoE's expert kernels",
    "lisa_n_layers": "LISA picks other layers every few steps",
    "ebft": "energy-based fine-tuning generates and embeds beside the step",
    "process_reward_model": "a head per token",
    "peft_layer_replication": "layers are used more than once, each with adapters of its own",
    "peft_trainable_token_indices": "rows of the embedding train beside the adapters",
    "flash_optimum": "BetterTransformer's layers",
    "max_memory": "layers are spread over devices by hand",
    "gpu_memory_limit": "layers are spread over devices by hand",
}
_PLUGINS = {
    "SpectrumPlugin": "Spectrum picks layers by a file of its own",
    "KDPlugin": "a teacher's logits stand beside the student's",
    "LLMCompressorPlugin": "recipes change weights while they train",
    "HatcheryPlugin": "the training runs on somebody else's machines",
    "DiffusionPlugin": "diffusion masks its own inputs",
    "DensemixerPlugin": "every expert runs on every token",
    "ExpertOffloadPlugin": "experts wait in host memory and come as they are chosen",
}


_STORED = ("fp8", "nvfp4", "mxfp4", "quanto", "aqlm", "hqq", "eetq")


def apply_unmodelled(fields: Fields, config: Config) -> None:
    """The first feature that keeps what nobody here has counted, said in place of a figure."""
    for key, reason in _UNMODELLED.items():
        value: Any = config.own.get(key)
        if value and as_bool(value) is not False:
            fields.put("stack.unmodelled", f"`{key}`: {reason}", config.own.origin(key))
            return
    for name in config.plugins:
        if name in _PLUGINS:
            fields.put("stack.unmodelled", f"{name}: {_PLUGINS[name]}", config.own.origin("plugins"))
            return
    if config.own.flag("tiled_mlp") and not fields.get("checkpointing.mlp_tiles", 0):
        reason = "`tiled_mlp`: tiled MLPs outside of checkpointed layers, of adapters or under autocast"
        fields.put("stack.unmodelled", reason, config.own.origin("tiled_mlp"))
        return
    if config.own.flag("llama4_linearized_experts") and not linearizes(config):
        reason = "`llama4_linearized_experts`: experts become linear layers of their own"
        fields.put("stack.unmodelled", reason, config.own.origin("llama4_linearized_experts"))
        return
    packing = unknown_of_packing(fields, config)
    if packing:
        reason = f"`quantize_moe_experts`: {packing}"
        fields.put("stack.unmodelled", reason, config.own.origin("quantize_moe_experts"))
        return
    if config.family in families.OWN_CODE_FOR_EXPERTS and config.quantizes:
        reason = "Axolotl's own code for this family has experts that are quantised one by one"
        fields.put("stack.unmodelled", reason, config.own.origin("base_model"))
        return
    stored = getattr(getattr(config.architecture, "stored", None), "method", "none")
    if stored in _STORED and not dequantizes(config):
        reason = f"the checkpoint is stored as {stored}: what of it is unpacked to train"
        fields.put("stack.unmodelled", reason, config.own.origin("base_model"))
