"""Axolotl: stage, sequence, checkpointing, evaluation and optimizer: how the keys are read and written."""

from __future__ import annotations

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.behaviour import BEHAVIOUR
from memlint.formats.axolotl.config import AxolotlConfig, default_origin, evaluates
from memlint.formats.axolotl.releases import NAME
from memlint.formats.fields import Fields, as_bool, as_int, as_number
from memlint.formats.keys import FieldChange, Read, Written
from memlint.formats.vision_towers import has_no_images
from memlint.run import Origin

_SETS_EXPANDABLE_SEGMENTS = (0, 5)
_STAGES = {"dpo": "dpo", "ipo": "dpo", "kto": "kto", "orpo": "orpo", "simpo": "simpo", "grpo": "grpo", "gdpo": "grpo"}


def apply_stack(fields: Fields, config: AxolotlConfig) -> None:
    fields.put("stack.framework", NAME, Origin("inferred", detail="the file's keys"))
    fields.behave(*BEHAVIOUR)
    origin = config.version_evidence or default_origin(config, "what its packaging allows")
    origins = config.context.version_origins
    for name in ("transformers", "torch", "peft", "accelerate", "trl", "deepspeed"):
        where = origins.get(name, Origin("setting")) if name in config.context.versions else origin
        fields.put(f"stack.{name}", tuple(config.versions[name]), where)
    where = origins.get(NAME, Origin("setting")) if NAME in config.context.versions else origin
    fields.put("stack.framework_version", tuple(config.versions[NAME]), where)
    # utils/__init__.py:81, set_pytorch_cuda_alloc_conf (0.5 to 0.6: train.py:60), unless the environment says otherwise
    segments = config.release >= _SETS_EXPANDABLE_SEGMENTS and config.versions["torch"] >= (2, 2)
    fields.put("stack.expandable_segments", segments, default_origin(config, "PYTORCH_ALLOC_CONF"))


def batch_size(key: str) -> Read:
    """A reader that reports a value that is no size under its key. TrainingArguments read valid ones."""

    def read(fields: Fields, config: AxolotlConfig) -> None:
        value = config.own.integer(key)
        if key in config.placeholders:
            fields.unknown(f"batch.{key}", f"`{key}` is a placeholder")
        elif value is None or value < 1:
            fields.unknown(f"batch.{key}", f"`{key}: {config.own.get(key)!r}` is no whole number >= 1")

    return read


def write_accumulation(change: FieldChange) -> Written | None:
    """The accumulation, or the older `batch_size` where that decides: over the micro batch it is the accumulation, so
    that smaller micro batches need no edit of it."""
    wanted, micro = as_int(change.value) or 0, change.changes.get("batch.micro_batch_size")
    total = as_int(change.section.get("batch_size"))
    if wanted < 1:
        return None
    if not total or change.section.get("gradient_accumulation_steps"):
        return {"gradient_accumulation_steps": wanted}
    size = as_int(change.run.batch.micro_batch_size if micro is None else micro)
    if not size:
        return None
    return {} if total // size == wanted else {"batch_size": wanted * size}


def _stage(config: AxolotlConfig) -> tuple[str, str]:
    """The stage, and the key that sets it."""
    if config.own.flag("reward_model"):
        return "rm", "reward_model"
    if config.rl:
        return _STAGES.get(config.rl, config.rl), "rl"
    return ("pt", "pretraining_dataset") if config.own.get("pretraining_dataset") else ("sft", "rl")


def read_stage(fields: Fields, config: AxolotlConfig) -> None:
    stage, key = _stage(config)
    fields.put("method.stage", stage, config.own.origin(key))


def read_reference(fields: Fields, config: AxolotlConfig) -> None:
    """The reference model: the base below the adapters, or a copy where there are none. Axolotl loads the model again
    for every method but ORPO (train.py:124, setup_reference_model); only DPO's trainer takes that one
    (core/builders/rl.py:77), KTO's and GRPO's make their own, and what nobody took is gone when training starts."""
    if config.rl not in ("dpo", "ipo", "kto", "grpo", "gdpo") or not _has_penalty(config):
        fields.infer("method.reference_model", "none", "no reference is kept")
    elif config.adapter and not config.own.flag("rl_adapter_ref_model"):
        fields.infer("method.reference_model", "shared", "the adapter is switched off for the reference")
    else:
        fields.infer("method.reference_model", "copy", "the model is loaded a second time")


# trl 0.17 trainer/grpo_config.py: `beta` 0.0 means no reference model; 0.04 before.
_NO_DEFAULT_PENALTY_SINCE = (0, 17)


def _has_penalty(config: AxolotlConfig) -> bool:
    """GRPO holds to its reference only where `trl.beta`, else `rl_beta` (core/builders/rl.py:129) asks it to."""
    if config.rl not in ("grpo", "gdpo"):
        return True
    written = config.mapping("trl").get("beta")
    beta = as_number(config.own.get("rl_beta") if written is None else written)
    return config.versions["trl"] < _NO_DEFAULT_PENALTY_SINCE if beta is None else bool(beta)


def write_reference(change: FieldChange) -> Written | None:
    """Nothing to write: with new adapters the base model is the reference, with the adapters switched off
    (core/builders/rl.py:289)."""
    return {} if change.changes.get("method.kind") == "lora" else None


def generates(config: AxolotlConfig) -> bool:
    """Whether the model generates its own samples to train on."""
    return _stage(config)[0] == "grpo"


def reads_rows(config: AxolotlConfig) -> bool:
    """Whether samples come from a dataset, as rows that `sequence_len` bounds."""
    return not generates(config)


def read_padding(fields: Fields, config: AxolotlConfig) -> None:
    """Packed and padded rows have exactly `sequence_len` tokens, other rows at most."""
    packed = config.own.flag("sample_packing")
    padded = as_bool(config.own.get("pad_to_sequence_len"))
    if padded is None and fields.get("method.stage") == "rm":  # validation.py:243, hint_reward_model_pad
        padded = config.release >= (0, 5)
    key = "pad_to_sequence_len" if padded is not None else "sample_packing"
    config.put(fields, "sequence.length_is_bound", key, not (packed if padded is None else padded))


_OWN_PLUGINS = "axolotl.integrations."


def read_images(fields: Fields, config: AxolotlConfig) -> None:
    """Without a processor, and for packed rows, the collator makes batches of tokens alone (0.5.0
    core/trainer_builder.py:1781; 0.19.0 core/builders/causal.py:525-536). A plug-in may bring a collator of its own."""
    processes = config.own.get("processor_type") or "processor_type" in config.placeholders
    may_collate = not all(path.startswith(_OWN_PLUGINS) for path in config.plugin_paths)
    if not may_collate and (not processes or config.own.flag("sample_packing")):
        has_no_images(fields, config.own.origin("sample_packing" if processes else "processor_type"))


def read_generation(fields: Fields, config: AxolotlConfig) -> None:
    """core/trainers/grpo/__init__.py: prompts are not truncated."""
    trl = config.mapping("trl")
    origin = config.own.origin("trl")
    completion = as_int(trl.get("max_completion_length")) or (512 if config.versions["trl"] >= (1,) else 256)
    fields.put("sequence.max_new_tokens", completion, origin)
    fields.put("method.num_generations", as_int(trl.get("num_generations")) or 8, origin)
    fields.unknown("sequence.length", "prompts are not bounded: GRPO's rows are as long as the data says")
    if not as_bool(trl.get("use_vllm")):
        fields.put("rollout.generator", "model", origin)
        return
    colocated = trl.get("vllm_mode") == "colocate"
    fields.put("rollout.generator", "vllm_colocate" if colocated else "vllm", origin)
    share = as_number(config.mapping("vllm").get("gpu_memory_utilization"))
    if colocated:
        fields.put("rollout.share", float(share or 0.9), config.own.origin("vllm"))
        fields.put("rollout.sleep_level", 2 if as_bool(trl.get("vllm_enable_sleep_mode")) else 0, origin)


# 0.4 core/trainer_builder.py:647 has `use_reentrant: False` for all.
_REENTRANT = (0, 5)
_OFFLOADING = ("offload", "offload_disk", "unsloth")
# Offloading by saved-tensor hooks; before, `offload` replaced torch's function (monkeypatch/gradient_checkpointing).
_OFFLOADS_BY_HOOKS = (0, 12)


def read_checkpointing(fields: Fields, config: AxolotlConfig) -> None:
    """Reentrant unless something says otherwise, but for reinforcement learning and Gemma 4 (utils/config/__init__.py:
    392-424; core/builders/base.py:565). Offloading moves what checkpoints keep: for adapters the loader has switched
    them on already (loaders/model.py:464), without them it wraps the layers (:368)."""
    key = "gradient_checkpointing"
    word = config.own.word(key)
    on = config.own.flag(key) or word in _OFFLOADING
    config.put(fields, "checkpointing.mode", key, "full" if on else "none")
    kwargs = config.mapping("gradient_checkpointing_kwargs")
    option = as_bool(kwargs.get("use_reentrant"))
    where = config.own.origin("gradient_checkpointing_kwargs" if option is not None else key)
    plain = not config.rl and not config.own.get("unfrozen_parameters") and config.release >= _REENTRANT
    reentrant = (plain if option is None else option) and config.family not in families.NEVER_REENTRANT
    fields.put("checkpointing.reentrant", reentrant, where)
    if on and config.own.get("selective_checkpointing"):
        config.put(fields, "checkpointing.mode", "selective_checkpointing", "selective")


def read_tiles(fields: Fields, config: AxolotlConfig) -> None:
    """`tiled_mlp`: the MLP goes through slices of the row, in the backward again (monkeypatch/tiled_mlp/patch.py:60):
    as many as it says, else a slice for 32,768 tokens, before for as many tokens as the model is wide. What it takes
    is bounded where layers are checkpointed and slices are computed in half precision. A kernel for adapted MLPs takes
    its place."""
    bounded = tiles_mlps(fields, config) and fields.get("checkpointing.mode") == "full"
    if not (bounded and _computes_slices_in_half(fields)):
        return
    length, micro = fields.get("sequence.length"), fields.get("batch.micro_batch_size")
    wide = getattr(config.architecture, "hidden_size", 0)
    if not (isinstance(length, int) and isinstance(micro, int) and wide):
        return
    number, tokens = config.integer("tiled_mlp_num_shards"), min(wide, _TILE)
    config.put(fields, "checkpointing.mlp_tiles", "tiled_mlp", number or -(-length * micro // tokens))
    if not number:
        config.put(fields, "planning.tokens_of_a_tile", "tiled_mlp", tokens)


_TILE = 32768


def tiles_mlps(fields: Fields, config: AxolotlConfig) -> bool:
    """Whether MLPs are tiled: the class is patched, and a kernel for adapters patches each module (monkeypatch/
    tiled_mlp/patch.py:176, monkeypatch/lora_kernels.py:638)."""
    return config.own.flag("tiled_mlp") and "mlp" not in (fields.get("method.fused_adapters") or ())


def _computes_slices_in_half(fields: Fields) -> bool:
    """The backward computes slices outside of autocast, in the dtype of the parameters that it finds."""
    if fields.get("method.kind") not in ("full", "lora", "freeze"):
        return False
    half = ("bfloat16", "float16")
    if fields.get("parallelism.engine") == "fsdp" and fields.get("parallelism.fsdp.param_dtype") in half:
        return True
    base = "precision.trainable_dtype" if fields.get("method.kind") == "full" else "model.weights_dtype"
    return not fields.get("precision.autocast") or fields.get(base) in half


def read_offloading(fields: Fields, config: AxolotlConfig) -> None:
    """`activation_offloading`, or the older `gradient_checkpointing: offload`."""
    asked, word = config.own.get("activation_offloading"), config.own.word("gradient_checkpointing")
    key = "activation_offloading" if asked else "gradient_checkpointing"
    if fields.get("checkpointing.mode") != "full" or not (asked or word in _OFFLOADING):
        return
    config.put(fields, "checkpointing.offload", key, True)
    reentrant = as_bool(config.mapping("gradient_checkpointing_kwargs").get("use_reentrant"))
    wrapped = not config.adapter and asked != "hidden_states" and config.release >= _OFFLOADS_BY_HOOKS
    if wrapped or (
        asked == "hidden_states" and reentrant is None
    ):  # validation.py:1660; torch's wrapper is never reentrant
        config.put(fields, "checkpointing.reentrant", key, False)


def write_checkpointing(change: FieldChange) -> Written | None:
    """No edit where other keys need it, nor for MPT (validation.py:1569)."""
    bound = any(change.section.get(key) for key in ("activation_offloading", "selective_checkpointing"))
    refused = families.NAMED_WITHOUT_CHECKPOINTING in str(change.section.get("base_model")).lower()
    if change.value not in ("full", "none") or bound or refused:
        return None
    return {"gradient_checkpointing": change.value == "full"}


def write_offloading(change: FieldChange) -> Written | None:
    """`hidden_states`: checkpointing stays, and what checkpoints keep is on the host (validation.py:1648). `true`
    moves every activation in place of recomputing where adapters train (loaders/model.py:365), which is more."""
    config = change.section
    blocked = ("selective_checkpointing", "layer_offloading", "activation_offloading")
    on = config.get("gradient_checkpointing") is True or change.changes.get("checkpointing.mode") == "full"
    if change.value is not True or not on or any(config.get(key) for key in blocked):
        return None
    return {"activation_offloading": "hidden_states"}


def read_evaluation(fields: Fields, config: AxolotlConfig) -> None:
    """Whether there is a set to evaluate on and a time to do it, which TrainingArguments know by another name."""
    key = "test_datasets" if config.own.get("test_datasets") else "val_set_size"
    enabled = bool(fields.get("evaluation.enabled", False)) and evaluates(config.own)
    config.put(fields, "evaluation.enabled", key, enabled)
    samples = config.own.number("val_set_size")
    if samples is not None and samples >= 1:
        config.put(fields, "evaluation.samples", "val_set_size", int(samples))


def write_evaluation(change: FieldChange) -> Written | None:
    """`val_set_size: 0`: with a set to evaluate on Axolotl evaluates before the first step whatever `eval_strategy`
    says (core/builders/base.py:531, `eval_on_start`). The samples held back are trained on then."""
    config = change.section
    needed_by = (
        *("test_datasets", "early_stopping_patience", "load_best_model_at_end"),
        *("do_bench_eval", "do_causal_lm_eval"),
    )
    if change.value or any(config.get(key) for key in needed_by) or config.get("save_strategy") == "best":
        return None
    times = ("eval_steps", "evals_per_epoch", "eval_strategy", "evaluation_strategy")
    return {"val_set_size": 0, **dict.fromkeys(times)}


def read_evaluation_batch(fields: Fields, config: AxolotlConfig) -> None:
    """The batch size of evaluation: as in training unless the file sets one. Its accumulation is that of training
    (core/builders/base.py, _set_base_training_args), where there is one."""
    key = "eval_batch_size" if config.own.get("eval_batch_size") else "micro_batch_size"
    config.put(fields, "evaluation.batch_size", key, fields.get("evaluation.batch_size"))
    steps = fields.get("evaluation.accumulation_steps", None)
    if steps is not None:
        config.put(fields, "evaluation.accumulation_steps", "gradient_accumulation_steps", steps)


def read_optimizer(fields: Fields, config: AxolotlConfig) -> None:
    if "optimizer" in config.placeholders:
        fields.unknown("optimizer.name", "`optimizer` is a placeholder")
        return
    word = config.own.word("optimizer")
    name = {"ao_adamw_4bit": "adamw_torch_4bit", "ao_adamw_8bit": "adamw_torch_8bit"}.get(word, word)
    if name:
        config.put(fields, "optimizer.name", "optimizer", name)
