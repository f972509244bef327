"""The keys of Oumi that bear on memory or on the run, read in Oumi 0.1.14 to 0.9 (oumi/core/configs). `passes` names
the argument of transformers or TRL that a key becomes: its format reads that.
"""

from __future__ import annotations

from memlint.formats.fields import Fields, value_at
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.oumi.config import OumiConfig
from memlint.formats.oumi.engine import STARTED_FSDP
from memlint.formats.section_keys import path_of
from memlint.run import Origin

PRECISION = "training.mixed_precision_dtype"
DTYPE = "model.torch_dtype_str"
LENGTH = "model.model_max_length"
PACK = "data.train.pack"
ARGUMENTS = "model.model_kwargs"
LOADED_ADAPTER = "model.adapter_model"
FORCES_CPU = "deepspeed.zero_force_ds_cpu_optimizer"
_PACKED_LENGTH = 1024  # oumi 0.9 core/datasets/pretraining_async_text_dataset.py, seq_length


def adapts(config: OumiConfig) -> bool:
    return config.trains_adapter


def quantises(config: OumiConfig) -> bool:
    return config.quantises


def generates(config: OumiConfig) -> bool:
    return config.generates


def uses_engine(config: OumiConfig) -> bool:
    return config.generates and config.flag("training.grpo.use_vllm")


def distils(config: OumiConfig) -> bool:
    return config.trainer == "TRL_GKD"


def uses_deepspeed(config: OumiConfig) -> bool:
    return config.flag("deepspeed.enable_deepspeed")


def shards(config: OumiConfig) -> bool:
    return config.shards


def read_length(fields: Fields, config: OumiConfig) -> None:
    """`model_max_length` becomes the tokenizer's, which cuts samples (builders/models.py, build_tokenizer;
    core/datasets/base_sft_dataset.py). Unset it is the model's own bound, which says nothing of the data."""
    if config.generates or config.written(LENGTH) is not None:
        return
    if config.flag(PACK):
        fields.put("sequence.length", _PACKED_LENGTH, Origin("default", detail="oumi 0.9: rows of 1024 tokens"))
    else:
        reason = f"`{LENGTH}` is not set: Oumi cuts samples at the model's own bound"
        fields.unknown("sequence.length", reason)


def read_packing(fields: Fields, config: OumiConfig) -> None:
    """Rows of one length, cut from all samples in turn, whose attention knows no samples
    (core/datasets/pretraining_async_text_dataset.py)."""
    packs = config.flag(PACK)
    fields.put("sequence.packing", packs, config.origin(PACK))
    if packs:
        fields.put("sequence.length_is_bound", False, config.origin(PACK))


# Arguments of a model's configuration that change where positions lie, and what changes no tensor's size.
_OF_POSITIONS = ("rope_scaling", "rope_theta", "rope_parameters", "max_position_embeddings")
_OF_NO_SIZE = (*_OF_POSITIONS, "disable_dropout", "use_cache", "quantization_config", "attn_implementation")


def read_model_arguments(fields: Fields, config: OumiConfig) -> None:
    """`model_kwargs`: values of the model's own configuration (builders/models.py, find_model_hf_config)."""
    given = config.raw(ARGUMENTS)
    names = tuple(given) if isinstance(given, dict) else ()
    if any(name in _OF_POSITIONS for name in names):
        fields.put("sequence.rope_scaling", "overridden", config.origin(ARGUMENTS))
    if other := next((name for name in names if name not in _OF_NO_SIZE), ""):
        fields.infer("stack.unmodelled", f"a model with another `{other}`", f"`{ARGUMENTS}`")
        fields.infer("stack.unmodelled_adds", False, f"`{ARGUMENTS}`")


def read_loaded_adapter(fields: Fields, config: OumiConfig) -> None:
    """An adapter from a folder, which trains where `adapter_trainable` says so (builders/models.py)."""
    if config.raw(LOADED_ADAPTER):
        fields.unknown("method.kind", f"what the adapter of `{LOADED_ADAPTER}` has is in its folder")


def _write_adapter(change: FieldChange) -> Written | None:
    if change.value not in ("lora", "full"):
        return None
    return {"training.use_peft": change.value == "lora"}


def _write_targets(change: FieldChange) -> Written | None:
    names = change.value if isinstance(change.value, (tuple, list)) else (change.value,)
    return {"peft.lora_target_modules": list(names)}


def _write_bits(change: FieldChange) -> Written | None:
    """4 or 8 bits go with an adapter alone."""
    if change.value not in (4, 8) or change.changes.get("method.kind", change.run.method.kind) != "lora":
        return None
    kind = {} if change.value == 8 else {"peft.bnb_4bit_quant_type": "nf4"}
    return {"peft.q_lora": True, "peft.q_lora_bits": change.value, **kind}


def _write_stage(change: FieldChange) -> Written | None:
    """The stage by its name. Without an optimizer stage 0 shards nothing."""
    return {"deepspeed.enable_deepspeed": True, "deepspeed.zero_stage": f"ZERO_{change.value}"}


def _write_engine(change: FieldChange) -> Written | None:
    return {"deepspeed": {"deepspeed.enable_deepspeed": True}, "fsdp": STARTED_FSDP}.get(change.value)


def _write_offload(change: FieldChange) -> Written | None:
    """A device, or no section; states that move to the host get the optimizer for it."""
    section = f"deepspeed.offload_{'optimizer' if change.field == 'offload.optimizer' else 'param'}"
    if change.value == "none":
        return {section: None}
    device = {f"{section}.device": str(change.value).upper()}
    keeps = change.field != "offload.optimizer" or value_at(change.section, path_of(FORCES_CPU)) is not False
    return device if keeps else {**device, FORCES_CPU: True}


def _write_loss(change: FieldChange) -> Written | None:
    """Liger's kernels with its fused loss, for the Trainer and TRL's (training_config.py, __post_init__)."""
    plain = change.run.loss.kind == "plain" and change.run.method.stage in ("sft", "pt")
    return {"model.enable_liger_kernel": True} if change.value == "liger" and plain else None


_MODEL = (
    Key(
        *("model.model_name", "text", "model.name"),
        passes="model_name_or_path",
        about="The model: a name of the Hugging Face hub or a folder.",
        read_only=True,
    ),
    Key(
        *(DTYPE, "text", "model.weights_dtype", "auto"),
        passes="dtype",
        about="The dtype of the model's weights; the checkpoint's unless said.",
        read_only=True,
    ),
    Key(
        *("model.attn_implementation", "text", "attention.implementation"),
        passes="attn_implementation",
        about="The attention: sdpa, eager, flash_attention_2, ...; transformers' choice unless said.",
    ),
    Key(
        *(LENGTH, "whole", "sequence.length"),
        passes="max_length",
        least=1,
        about="The longest sample in tokens. Unset: the model's own bound.",
        read=read_length,
        write=lambda change: {LENGTH: change.value},
    ),
    Key(
        *("model.enable_liger_kernel", "flag", "loss.kind", False),
        passes="use_liger_kernel",
        about="Liger's kernels, with a loss that never builds all logits.",
        write=_write_loss,
    ),
    Key(
        *("model.freeze_layers", "words", "method.kind"),
        about="Modules that do not train, by name. Adapters in them do.",
        write_only=True,
        read_only=True,
    ),
    Key(
        *(ARGUMENTS, "any", "sequence.rope_scaling"),
        also=("stack.unmodelled", "stack.unmodelled_adds"),
        about="Values of the model's own configuration, such as `rope_scaling`.",
        read=read_model_arguments,
        read_only=True,
    ),
    Key("model.compile", "flag", "", False, about="For inference; `training.compile` is for training."),
    Key("model.text_only", "flag", about="Load the language model of a model with a vision tower alone."),
    Key(
        *(LOADED_ADAPTER, "text", "method.kind"),
        about="An adapter that is loaded with the model.",
        read=read_loaded_adapter,
        read_only=True,
    ),
    Key(
        *(PACK, "flag", "sequence.packing", False),
        also=("sequence.length_is_bound",),
        about="Cut rows of one length from all samples in turn.",
        read=read_packing,
        read_only=True,
    ),
    Key("data.train.collator_name", "text", about="What makes batches of samples: `vision_language_sft` for images."),
)
_ADAPTER = (
    Key(
        *("training.use_peft", "flag", "method.kind", False),
        passes="use_peft",
        about="Train a LoRA adapter, by the section `peft`.",
        write=_write_adapter,
    ),
    Key(
        *("peft.lora_r", "whole", "method.rank", 8),
        passes="lora_r",
        least=1,
        when=adapts,
        about="The rank of LoRA. The adapter's parameters, gradients and optimizer state grow with it.",
    ),
    Key(
        *("peft.lora_alpha", "whole", "method.alpha", 8),
        passes="lora_alpha",
        when=adapts,
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
    ),
    Key(
        *("peft.lora_dropout", "number", "method.dropout", 0.0),
        passes="lora_dropout",
        least=0,
        when=adapts,
        about="Dropout before the adapter. Above 0 its masked input is kept for the backward pass.",
    ),
    Key(
        *("peft.lora_target_modules", "words", "method.targets"),
        passes="lora_target_modules",
        when=adapts,
        about="The linear layers that get an adapter; PEFT's choice for the model unless said.",
        write=_write_targets,
    ),
    Key(
        *("peft.lora_modules_to_save", "words", "method.modules_to_save"),
        passes="lora_modules_to_save",
        when=adapts,
        about="Modules trained in full beside the adapter.",
    ),
    Key(
        *("peft.lora_target_parameters", "words", "method.target_parameters"),
        passes="lora_target_parameters",
        when=adapts,
        read_only=True,
        about="Parameters, such as those of packed experts, that get an adapter.",
    ),
    Key(
        *("peft.lora_bias", "word", "method.bias", "none"),
        passes="lora_bias",
        when=adapts,
        read_only=True,
        about="Which biases train beside the adapter: `none`, `all`, or `lora_only`.",
    ),
    Key(
        *("peft.q_lora", "flag", "model.quantization.bits", False),
        about="Load the base model in few bits.",
        write_only=True,
        write=_write_bits,
    ),
    Key("peft.q_lora_bits", "whole", "", 4, about="The bits of the base model's weights: 4 or 8."),
    Key(
        *("peft.bnb_4bit_quant_type", "text", "model.quantization.kind", "fp4"),
        passes="bnb_4bit_quant_type",
        when=quantises,
        read_only=True,
        about="How 4 bits stand for a weight: nf4 or fp4.",
    ),
    Key(
        *("peft.use_bnb_nested_quant", "flag", "model.quantization.double_quant", False),
        passes="use_bnb_nested_quant",
        when=quantises,
        about="Quantise the scales too: 0.4 bits less for each weight.",
    ),
    Key(
        *("peft.bnb_4bit_quant_storage", "word", "model.quantization.storage_dtype", "uint8"),
        passes="bnb_4bit_quant_storage",
        when=quantises,
        about="The dtype of the tensors that hold 4-bit weights; FSDP can share those of the model's own dtype alone.",
    ),
)
_TRAINING = (
    Key("training.trainer_type", "text", "", "HF", about="The trainer: HF, OUMI, TRL_SFT, TRL_DPO, TRL_GRPO, ..."),
    Key(
        *("training.per_device_train_batch_size", "whole", "batch.micro_batch_size", 8),
        passes="per_device_train_batch_size",
        least=1,
        about="Sequences per GPU and forward pass. Activations and logits grow with it.",
    ),
    Key(
        *("training.gradient_accumulation_steps", "whole", "batch.gradient_accumulation_steps", 1),
        passes="gradient_accumulation_steps",
        least=1,
        about="Backward passes of a step.",
    ),
    Key(
        *("training.per_device_eval_batch_size", "whole", "evaluation.batch_size", 8),
        passes="per_device_eval_batch_size",
        least=1,
        about="Sequences per GPU of an evaluation.",
    ),
    Key(
        *("training.eval_strategy", "word", "evaluation.enabled", "no"),
        passes="eval_strategy",
        read_only=True,
        about="When to evaluate: no, steps or epoch.",
    ),
    Key(
        *("training.enable_gradient_checkpointing", "flag", "checkpointing.mode", False),
        passes="gradient_checkpointing",
        values={True: "full", False: "none"},
        about="Recompute each layer in the backward pass instead of keeping its activations.",
    ),
    Key(
        *("training.gradient_checkpointing_kwargs", "any", "checkpointing.reentrant"),
        passes="gradient_checkpointing_kwargs",
        read_only=True,
        about="`use_reentrant`, and other options of PyTorch's checkpoint.",
    ),
    Key(
        *("training.optimizer", "word", "optimizer.name", "adamw_torch"),
        passes="optim",
        about="The optimizer, by the Trainer's names.",
    ),
    Key(
        *("training.learning_rate", "number", "optimizer.learning_rate", 5e-5),
        passes="learning_rate",
        about="The learning rate. It takes no memory.",
    ),
    Key(
        *(PRECISION, "text", "precision.autocast", "NONE"),
        about="Autocast to BF16 or FP16, for a model in float32. NONE: the model's own dtype computes.",
        read_only=True,
        write_only=True,
    ),
    Key(
        *("training.compile", "flag", "stack.compile", False),
        passes="torch_compile",
        about="Compile the model.",
    ),
    Key(
        *("training.max_grad_norm", "number", "optimizer.max_grad_norm", 1.0),
        passes="max_grad_norm",
        read_only=True,
        about="Clip gradients to this norm.",
    ),
    Key(
        *("training.empty_device_cache_steps", "whole"),
        passes="torch_empty_cache_steps",
        about="Give cached blocks back to the card after so many steps.",
    ),
    Key("training.trainer_kwargs", "any", about="Arguments of the trainer's own class, passed on as they are."),
)
_GENERATION = (
    Key(
        *("training.grpo.max_prompt_length", "whole", "sequence.max_prompt_length"),
        passes="max_prompt_length",
        least=1,
        when=generates,
        about="The longest prompt in tokens.",
    ),
    Key(
        *("training.grpo.max_completion_length", "whole", "sequence.max_new_tokens"),
        passes="max_completion_length",
        least=1,
        when=generates,
        about="The longest completion in tokens; TRL's default unless said.",
    ),
    Key(
        *("training.grpo.num_generations", "whole", "method.num_generations"),
        passes="num_generations",
        least=1,
        when=generates,
        about="Completions for each prompt; 8 unless said.",
    ),
    Key(
        *("training.grpo.use_vllm", "flag", "rollout.generator", False),
        passes="use_vllm",
        when=generates,
        read_only=True,
        about="Write completions with vLLM instead of the model itself.",
    ),
    Key(
        *("training.grpo.vllm_mode", "text", "rollout.generator"),
        passes="vllm_mode",
        when=uses_engine,
        read_only=True,
        about="Where vLLM runs: `colocate` shares the training cards, `server` has cards of its own.",
    ),
    Key(
        *("training.grpo.vllm_gpu_memory_utilization", "number", "rollout.share", 0.9),
        passes="vllm_gpu_memory_utilization",
        least=0,
        most=1,
        when=uses_engine,
        about="The share of each card that a colocated vLLM takes.",
    ),
    Key(
        *("training.gkd.teacher_model_name_or_path", "text", "method.extra_models"),
        passes="teacher_model_name_or_path",
        when=distils,
        read_only=True,
        about="The frozen model that GKD learns from.",
    ),
    Key(
        *("training.gkd.lmbda", "number", "rollout.generator", 0.5),
        passes="lmbda",
        when=distils,
        read_only=True,
        about="The share of GKD's steps for which the student writes completions.",
    ),
    Key(
        *("training.gkd.beta", "number", "loss.divergence", 0.5),
        passes="beta",
        when=distils,
        read_only=True,
        about="0 and 1 compare one way, 0.5 both ways with the mean of the two models.",
    ),
    Key(
        *("training.gkd.max_new_tokens", "whole", "sequence.max_new_tokens", 128),
        passes="max_new_tokens",
        least=1,
        when=distils,
        read_only=True,
        about="The longest completion of the student in tokens.",
    ),
)
_DEEPSPEED = (
    Key(
        *("deepspeed.enable_deepspeed", "flag", "parallelism.engine", False),
        about="Train with DeepSpeed, by the section `deepspeed`.",
        write_only=True,
        write=_write_engine,
    ),
    Key("deepspeed.deepspeed_config_path", "text", about="A file in place of the section."),
    Key(
        *("deepspeed.zero_stage", "text", "parallelism.zero.stage", "ZERO_0"),
        about="What DeepSpeed shares: ZERO_1 optimizer states, ZERO_2 gradients too, ZERO_3 weights too.",
        write_only=True,
        write=_write_stage,
    ),
    Key(
        *("deepspeed.offload_optimizer.device", "text", "offload.optimizer", "CPU"),
        about="Keep optimizer states in host memory (CPU) or on a disk (NVME).",
        write_only=True,
        write=_write_offload,
    ),
    Key("deepspeed.offload_optimizer.pin_memory", "flag", "", True, about="Pin the states' host memory."),
    Key(
        *("deepspeed.offload_param.device", "text", "offload.parameters", "CPU"),
        about="Keep parameters in host memory (CPU) or on a disk (NVME), under ZERO_3 alone.",
        write_only=True,
        write=_write_offload,
    ),
    Key("deepspeed.offload_param.pin_memory", "flag", "", True, about="Pin the parameters' host memory."),
    Key("deepspeed.precision", "text", about="BF16 or FP16 in DeepSpeed's own configuration."),
    Key(
        *("deepspeed.overlap_comm", "flag", "parallelism.zero.overlap_comm", False),
        about="Reduce gradients while the backward goes on, for a second bucket.",
        write_only=True,
    ),
    Key("deepspeed.contiguous_gradients", "flag", "", True, about="Copy gradients to one buffer as they come."),
    Key(
        *("deepspeed.reduce_bucket_size", "any", "parallelism.zero.reduce_bucket_size", 500_000_000),
        about="Elements that are reduced at once.",
        write_only=True,
    ),
    Key(
        *("deepspeed.allgather_bucket_size", "whole", "parallelism.zero.allgather_bucket_size", 500_000_000),
        about="Elements that are gathered at once after a step.",
        write_only=True,
    ),
    Key("deepspeed.allgather_partitions", "flag", "", True, about="Gather with one call instead of broadcasts."),
    Key("deepspeed.reduce_scatter", "flag", "", True, about="Reduce to the owner's share alone."),
    Key("deepspeed.round_robin_gradients", "flag", "", False, about="Share copying gradients to the host."),
    Key(
        *("deepspeed.stage3_prefetch_bucket_size", "any", "parallelism.zero.prefetch_bucket_size", 50_000_000),
        about="Elements of weights that are gathered ahead.",
        write_only=True,
    ),
    Key(
        *("deepspeed.stage3_param_persistence_threshold", "any", "parallelism.zero.param_persistence_threshold"),
        default=100_000,
        about="Smaller parameters are never divided.",
        write_only=True,
    ),
    Key(
        *("deepspeed.stage3_max_live_parameters", "whole", "parallelism.zero.max_live_parameters", 1_000_000_000),
        about="The most elements that stay gathered.",
        write_only=True,
    ),
    Key(
        *("deepspeed.stage3_max_reuse_distance", "whole", "parallelism.zero.max_reuse_distance", 1_000_000_000),
        about="Weights that are used again within so many elements stay gathered.",
        write_only=True,
    ),
    Key(
        *("deepspeed.stage3_gather_16bit_weights_on_model_save", "flag"),
        field="parallelism.zero.gather_16bit_weights_on_model_save",
        default=False,
        about="Gather the whole model to save it.",
        write_only=True,
    ),
    Key("deepspeed.sub_group_size", "whole", "", 1_000_000_000, about="Elements of one part of the optimizer's step."),
    Key("deepspeed.train_batch_size", "any", "", "auto", about="`auto`: from the trainer's own arguments."),
    Key("deepspeed.train_micro_batch_size_per_gpu", "any", "", "auto", about="`auto`: from the trainer's arguments."),
    Key("deepspeed.gradient_accumulation_steps", "any", "", "auto", about="`auto`: from the trainer's arguments."),
    Key("deepspeed.gradient_clipping", "any", "", "auto", about="`auto`: from the trainer's arguments."),
    Key("deepspeed.zero_allow_untested_optimizer", "flag", "", True, about="Take optimizers that DeepSpeed lacks."),
    Key(
        FORCES_CPU, "flag", "", True, about="Step in host memory with DeepSpeed's own AdamW, in place of the optimizer."
    ),
)
_FSDP = (
    Key(
        *("fsdp.enable_fsdp", "flag", "parallelism.engine", False),
        about="Train with FSDP, by the section `fsdp`.",
        write_only=True,
        read_only=True,
    ),
    Key(
        *("fsdp.sharding_strategy", "text", "parallelism.fsdp.strategy", "FULL_SHARD"),
        about="What FSDP shares: FULL_SHARD everything, SHARD_GRAD_OP gradients and optimizer states alone, ...",
        write_only=True,
        when=shards,
    ),
    Key(
        *("fsdp.cpu_offload", "flag", "parallelism.fsdp.cpu_offload", False),
        about="Keep each GPU's share in host memory, and step there.",
        write_only=True,
        when=shards,
    ),
    Key("fsdp.mixed_precision", "text", about="bf16 or fp16: what accelerate computes in under FSDP."),
    Key(
        *("fsdp.auto_wrap_policy", "text", "parallelism.fsdp.wrap", "NO_WRAP"),
        about="How the model is cut into units that are gathered one by one. NO_WRAP gathers all of it at once.",
        values={"TRANSFORMER_BASED_WRAP": "transformer", "SIZE_BASED_WRAP": "size", "NO_WRAP": "none"},
        write_only=True,
        when=shards,
    ),
    Key("fsdp.min_num_params", "whole", "", 100_000, about="The size of a unit under SIZE_BASED_WRAP."),
    Key("fsdp.transformer_layer_cls", "text", about="The classes of layers that become units."),
    Key("fsdp.use_orig_params", "flag", about="Keep the names of parameters; off for adapters unless said."),
    Key("fsdp.state_dict_type", "text", "", "FULL_STATE_DICT", about="Save the whole model, or each GPU's share."),
)
KEYS = Keys(*_MODEL, *_ADAPTER, *_TRAINING, *_GENERATION, *_DEEPSPEED, *_FSDP)
