"""The keys of TRL and of training scripts that bear on memory or on the run, beside those of TrainingArguments.

TRL's ModelConfig and its trainers' configurations (SFTConfig, DPOConfig, GRPOConfig, ...), PEFT's names for LoRA, and
names that scripts around the Trainer commonly give to the same things. Read in the releases that format.py names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.trainer import method, model, parallel, training
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.recognise import is_trl
from memlint.formats.training_arguments.keys import KEYS as TRAINING_ARGUMENTS


def _is_trl(change: FieldChange) -> bool:
    """Whether TRL reads the file: only it makes adapters and quantization of its keys (get_peft_config,
    get_quantization_config); a script of its own may declare fewer keys."""
    return is_trl(change.section)


def _trains_quantized(change: FieldChange) -> bool:
    """TRL's scripts make adapters where `use_peft` asks for them, and 4 bits alone cannot train."""
    adapts = change.changes.get("method.kind") == "lora" or bool(change.section.get("use_peft"))
    return _is_trl(change) and (change.value != 4 or adapts)


def _write_targets(change: FieldChange) -> Written | None:
    """TRL takes a list of names; a single one is written as it is (model_config.py, __post_init__)."""
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    key = OWN_KEYS["lora_target_modules"].spelling(change)
    return {key: names[0] if len(names) == 1 else names} if names else None


def _write_length(change: FieldChange) -> Written | None:
    """SFTConfig has `max_length` since trl 0.16 (v0.15.2 and v0.16.0 sft_config.py); the other trainers always had."""
    row = OWN_KEYS["max_length"]
    if row.written_value(change.value) is None:
        return None
    is_older = change.run.method.stage == "sft" and () < change.run.stack.trl < (0, 16)
    return {row.spelling_in(change.section) or ("max_seq_length" if is_older else "max_length"): change.value}


# The trainers that know `activation_offloading`, and since which trl (trainer/{sft,dpo,reward,kto}_config.py).
_OFFLOADING = {"sft": (0, 19), "pt": (0, 19), "dpo": (0, 29), "rm": (0, 29), "kto": (1, 16)}


def _offloads_activations(change: FieldChange) -> bool:
    since = _OFFLOADING.get(change.run.method.stage)
    return since is not None and change.run.stack.trl >= since


def _read_activation_offloading(fields: Fields, config: TrainerConfig) -> None:
    if config.is_on("activation_offloading"):
        fields.put("offload.activations", "cpu", config.section.origin("activation_offloading"))


# `torch.dtype`s that bitsandbytes can store packed 4-bit weights in.
_STORAGES: Mapping[str, str] = {**model.DTYPES, "uint8": "uint8"}
_ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_TRUE: Mapping[Any, Any] = {True: True}

_MODEL = (
    Key(
        *("model_name_or_path", "text", "model.name"),
        also=("model.architecture",),
        about="The model: a name of the Hugging Face hub or a folder. Its shapes come from memlint's catalog.",
        older=("model_name", "model_id", "base_model", "model_path", "model"),
        read=model.read_model,
        read_only=True,
    ),
    Key(
        *("dtype", "word", "model.weights_dtype"),
        about="The dtype that the weights are loaded in. float32 takes 4 bytes per parameter, bfloat16 2.",
        older=("torch_dtype", "model_dtype", "base_dtype"),
        since=("trl", (0, 23)),  # v0.22.2 and v0.23.0 model_config.py
        values=model.DTYPES,
        can_add=_is_trl,
        read=model.read_weights_dtype,
    ),
    Key(
        *("attn_implementation", "word", "attention.implementation"),
        about="The attention kernel. eager holds a score for every pair of tokens; sdpa and flash attention do not.",
        older=("_attn_implementation",),
        values=dict(zip(_ATTENTIONS, _ATTENTIONS, strict=True)),
        read=model.read_attention,
    ),
    Key(
        *("use_flash_attention_2", "flag", "attention.implementation"),
        about="A script's switch for FlashAttention 2.",
        older=("use_flash_attn",),
        values={True: "flash_attention_2"},
        read_with="attn_implementation",
        read_only=True,
    ),
    Key(
        *("use_unsloth", "flag", "stack.use_unsloth"),
        about="A script's switch for Unsloth's kernels and its checkpointing to host memory.",
        values=_TRUE,
        only_if_given=True,
        invalid="ignored",
        read_only=True,
    ),
)
QUANTIZATION = (
    Key(
        *("load_in_4bit", "flag", "model.quantization.bits", False),
        about="Load the linear layers in 4 bits with bitsandbytes (QLoRA): about 0.5 bytes per parameter.",
        values={True: 4, False: 16},
        can_write=_trains_quantized,
        read=model.read_quantization,
    ),
    Key(
        *("load_in_8bit", "flag", "model.quantization.bits", False),
        about="Load the linear layers in 8 bits with bitsandbytes: about 1 byte per parameter.",
        values={True: 8},
        read_with="load_in_4bit",
        read_only=True,
    ),
    Key(
        *("bits", "whole", "model.quantization.bits"),
        about="A script's number of bits for bitsandbytes: 4 or 8.",
        read_with="load_in_4bit",
        read_only=True,
    ),
    Key(
        *("use_qlora", "flag", "model.quantization.bits"),
        about="A script's switch for QLoRA: 4 bits and an adapter.",
        values={True: 4},
        read_with="load_in_4bit",
        read_only=True,
    ),
    Key(
        *("bnb_4bit_quant_type", "text", "model.quantization.kind", "nf4"),
        about="The 4-bit data type: nf4 or fp4. Both take the same memory.",
        older=("quant_type",),
        only_if_given=True,
        invalid="ignored",
        when=model.loads_in_4_bits,
        can_write=_is_trl,
    ),
    Key(
        *("use_bnb_nested_quant", "flag", "model.quantization.double_quant", False),
        about="Quantize the scales as well: saves about 0.4 bits per parameter.",
        older=("bnb_4bit_use_double_quant", "double_quant", "use_nested_quant"),
        only_if_given=True,
        invalid="default",
        when=model.loads_in_4_bits,
        can_write=_is_trl,
    ),
    Key(
        *("bnb_4bit_quant_storage", "word", "model.quantization.storage_dtype"),
        about="The dtype that packed 4-bit weights are stored in. FSDP shards them where it is that of the others.",
        values=_STORAGES,
        only_if_given=True,
        invalid="ignored",
        when=model.loads_in_4_bits,
        can_write=_is_trl,
    ),
)
ADAPTER = (
    Key(
        *("use_peft", "flag", "method.kind", False),
        about="Train a LoRA adapter: gradients and optimizer state exist for its parameters alone.",
        values={True: "lora", False: "full"},
        can_write=_is_trl,
        read=method.read_method,
    ),
    Key(
        *("use_lora", "flag", "method.kind"),
        about="A script's switch for LoRA.",
        older=("lora_enable",),
        values={True: "lora", False: "full"},
        read_with="use_peft",
        read_only=True,
    ),
    Key(
        *("train_mode", "word", "method.kind"),
        about="A script's word for what trains: full, lora or qlora.",
        older=("method",),
        values={"full": "full", "lora": "lora", "qlora": "lora"},
        read_with="use_peft",
        read_only=True,
    ),
    Key(
        *("full_finetune", "flag", "method.kind"),
        about="A script's switch for training all parameters.",
        values={True: "full"},
        read_with="use_peft",
        read_only=True,
    ),
    Key(
        *("lora_r", "whole", "method.rank", 16),
        about="The rank of LoRA. The adapter's parameters, gradients and optimizer state grow with it.",
        of="ModelConfig",
        older=("lora_rank",),
        least=0,
        invalid="default",
        when=method.trains_adapter,
        can_add=_is_trl,
    ),
    Key(
        *("lora_alpha", "whole", "method.alpha", 32),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        of="ModelConfig",
        least=0,
        invalid="default",
        when=method.trains_adapter,
        can_add=_is_trl,
    ),
    Key(
        *("lora_dropout", "number", "method.dropout", 0.05),
        about="Dropout before the adapter. Above 0 its masked input is kept for the backward pass.",
        of="ModelConfig",
        least=0,
        invalid="default",
        when=method.trains_adapter,
        can_add=_is_trl,
    ),
    Key(
        *("lora_target_modules", "words", "method.targets"),
        about="The linear layers that get an adapter. `all-linear` means every one but the head.",
        older=("target_modules", "lora_target"),
        when=method.trains_adapter,
        read=method.read_targets,
        can_add=_is_trl,
        write=_write_targets,
    ),
    Key(
        *("lora_modules_to_save", "words", "method.modules_to_save"),
        about="Modules trained in full beside the adapter, each a second copy with gradients and optimizer state.",
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
    Key(
        *("lora_exclude_modules", "words", "method.exclude_modules"),
        about="Modules that get no adapter although `lora_target_modules` names them.",
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
    Key(
        *("lora_rank_pattern", "any", "method.rank_pattern"),
        about="Ranks of single modules, where they differ from `lora_r`.",
        read=method.read_rank_pattern,
        only_if_given=True,
        when=method.trains_adapter,
        read_only=True,
    ),
    Key(
        *("lora_layers_to_transform", "any", "method.layers_to_transform"),
        about="Numbers of the layers that get adapters. The others get none.",
        read=method.read_layers,
        only_if_given=True,
        when=method.trains_adapter,
        read_only=True,
    ),
    Key(
        *("lora_bias", "word", "method.bias"),
        about="Which biases train beside the adapter: `none`, `all`, or `lora_only`.",
        values={"none": "none", "all": "all", "lora_only": "lora_only"},
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
    Key(
        *("lora_target_parameters", "words", "method.target_parameters"),
        about="Parameters that get an adapter without being a linear layer, such as the experts' weights.",
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
    Key(
        *("use_dora", "flag", "method.use_dora", False),
        about="DoRA: LoRA with a trained norm per column. It computes the merged weight in every forward pass.",
        values=_TRUE,
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
    Key(
        *("use_rslora", "flag", "method.use_rslora", False),
        about="Scale LoRA's update by the root of its rank. It takes no memory.",
        values=_TRUE,
        only_if_given=True,
        invalid="ignored",
        when=method.trains_adapter,
        can_write=_is_trl,
    ),
)
_REFERENCE = (
    Key(
        *("precompute_ref_log_probs", "flag", "method.reference_model", False),
        about="Run the reference model once before training and drop it, instead of holding a second model.",
        values={True: "precomputed"},
        read=training.read_reference,
    ),
    Key(
        *("reference_free", "flag", "method.reference_model", False),
        about="Compare with no reference model.",
        values={True: "none"},
        read_with="precompute_ref_log_probs",
        read_only=True,
    ),
    Key(
        *("beta", "number"),
        about="The weight of the distance to the reference model. GRPO holds none where it is 0.",
        read_with="precompute_ref_log_probs",
    ),
    Key(
        *("loss_type", "text", "loss.preference"),
        about="The loss of a preference trainer (sigmoid, hinge, ipo, ...), or of SFT (nll, chunked_nll).",
        when=training.learns_preferences,
        read=training.read_preference_loss,
        read_only=True,
    ),
)
_SEQUENCE = (
    Key(
        *("max_source_length", "whole", "sequence.length"),
        about="A script's name for the longest sequence in tokens.",
        older=("cutoff_len", "seq_len", "seq_length", "max_len"),
        least=1,
        only_if_given=True,
        invalid="ignored",
        when=training.bounds_sequence,
        read_only=True,
    ),
    Key(
        *("max_length", "whole", "sequence.length"),
        about="The longest sequence in tokens; longer samples are cut. Activations and logits grow with it.",
        older=("max_seq_length", "model_max_length", "block_size"),
        least=1,
        when=training.bounds_sequence,
        read=training.read_length,
        can_add=_is_trl,
        write=_write_length,
    ),
    Key(
        *("source_max_len", "whole"),
        about="A script's longest prompt in tokens; with `target_max_len` the longest sequence.",
        read_with="max_length",
    ),
    Key("target_max_len", "whole", about="A script's longest answer in tokens.", read_with="max_length"),
    Key(
        *("max_pixels", "whole", "sequence.image_max_pixels"),
        about="A script's name for the most pixels of an image; larger ones are scaled down.",
        older=("image_max_pixels",),
        least=1,
        only_if_given=True,
        invalid="ignored",
        read_only=True,
    ),
    Key(
        *("max_target_length", "whole", "sequence.source_length"),
        about="A script's longest target in tokens: what the decoder of T5 or BART writes, beside `max_source_length`.",
        least=1,
        when=training.bounds_sequence,
        read=training.read_two_lengths,
        read_only=True,
        also=("sequence.length",),
    ),
    Key(
        *("packing", "flag", "sequence.packing", False),
        about="Fill every sequence up to max_length with several samples.",
        invalid="default",
        can_add=_is_trl,
    ),
    Key(
        *("packing_strategy", "text", "sequence.neat_packing", "bfd"),
        about="How samples are packed. `bfd` keeps them apart and makes batches padding-free; `wrapped` cuts them.",
        read=training.read_packing_strategy,
        read_only=True,
    ),
    Key(
        *("padding_free", "flag", "", False),
        about="Join the samples of a batch into one sequence without padding.",
    ),
    Key(
        *("activation_offloading", "flag", "offload.activations", False),
        about="Keep activations in host memory between forward and backward.",
        values={True: "cpu", False: "none"},
        read=_read_activation_offloading,
        can_write=_offloads_activations,
        can_add=_is_trl,
    ),
)
_GENERATION = (
    Key(
        *("max_prompt_length", "whole", "sequence.max_prompt_length"),
        about="The longest prompt in tokens.",
        least=1,
        only_if_given=True,
        invalid="ignored",
    ),
    Key(
        *("max_completion_length", "whole", "sequence.max_new_tokens"),
        about="The longest completion that GRPO generates, in tokens. With the prompt it makes the sequence.",
        least=1,
        when=training.generates,
        read=training.read_completion_length,
    ),
    Key(
        *("num_generations", "whole", "method.num_generations", 8),
        about="Completions that GRPO generates for each prompt.",
        least=1,
        invalid="default",
        when=training.generates,
    ),
    Key(
        *("ds3_gather_for_generation", "flag", "parallelism.zero.gathers_for_generation", True),
        about="Under ZeRO-3 gather the whole model on each GPU to generate: faster, but it has to fit.",
        only_if_given=True,
        invalid="ignored",
        when=training.generates,
    ),
    Key(
        *("use_vllm", "flag", "rollout.generator", False),
        about="Generate with vLLM instead of the model itself.",
        when=training.generates,
        read=training.read_generator,
        read_only=True,
    ),
    Key(
        *("fast_inference", "flag", "rollout.generator", False),
        about="Unsloth's switch for a vLLM that shares the trained model's weights.",
        when=training.generates,
        read_with="use_vllm",
        read_only=True,
    ),
    Key(
        *("gpu_memory_utilization", "number", "rollout.share", 0.9),
        about="The share of the GPU that vLLM takes; under Unsloth of what is free, with the weights, 0.5 unless said.",
        least=0,
        most=1,
        when=training.generates,
        read_with="use_vllm",
        read_only=True,
    ),
    Key(
        *("unsloth_vllm_standby", "flag", "rollout.sleep_level", False),
        about="Unsloth's vLLM gives its cache back while the model trains (UNSLOTH_VLLM_STANDBY).",
        when=training.generates,
        read_with="use_vllm",
        read_only=True,
    ),
    Key(
        *("vllm_mode", "text", "rollout.generator", "colocate"),
        about="Where vLLM runs: `colocate` shares the training GPUs, `server` has GPUs of its own.",
        read_with="use_vllm",
        read_only=True,
    ),
    Key(
        *("vllm_gpu_memory_utilization", "number", "rollout.share", 0.3),
        about="The share of each GPU that a colocated vLLM takes for weights and KV cache.",
        least=0,
        most=1,
        read_with="use_vllm",
    ),
    Key(
        *("vllm_tensor_parallel_size", "whole", "rollout.tensor_parallel_size", 1),
        about="GPUs that share the weights of a colocated vLLM.",
        least=1,
        only_if_given=True,
        invalid="ignored",
        when=training.generates,
    ),
    Key(
        *("vllm_max_model_length", "whole", "rollout.max_model_len"),
        older=("vllm_max_model_len",),
        about="The longest sequence that vLLM accepts; the model's own bound unless said.",
        least=1,
        only_if_given=True,
        invalid="ignored",
        when=training.generates,
    ),
    Key(
        *("vllm_enable_sleep_mode", "flag", "rollout.sleep_level", False),
        about="vLLM gives its memory back while the model trains.",
        values={True: 2, False: 0},
        read_with="use_vllm",
    ),
)
_REWARDS = (
    Key(
        *("reward_model_name_or_path", "text", "method.extra_models"),
        also=("method.reward_model", "method.fsdp_shards_extra_models"),
        when=training.scores_with_a_model,
        read=training.read_reward_models,
        read_only=True,
        about="A model that scores GRPO's and RLOO's completions.",
    ),
)
_PPO = (
    Key(
        *("reward_model_path", "text", "method.value_model"),
        also=("method.extra_models",),
        when=training.reinforces_with_values,
        read=training.read_value_model,
        read_only=True,
        about="The model that scores PPO's completions, and that its value model starts from.",
    ),
    Key(
        *("local_rollout_forward_batch_size", "whole", "rollout.log_prob_micro_batch_size", 64),
        read_with="reward_model_path",
        least=1,
        about="Sequences in one forward of PPO's models between updates.",
    ),
    Key(
        *("response_length", "whole", "sequence.max_new_tokens", training.PPO_RESPONSE_LENGTH),
        read_with="max_completion_length",
        least=1,
        about="The longest completion that PPO writes.",
    ),
)
_DISTILLATION = (
    Key(
        *("teacher_model_name_or_path", "text", "method.extra_models"),
        when=training.distils,
        read=training.read_distillation,
        read_only=True,
        about="The frozen model that GKD learns from.",
    ),
    Key(
        *("lmbda", "number", "rollout.generator", 0.5),
        read_with="teacher_model_name_or_path",
        read_only=True,
        least=0,
        most=1,
        about="The share of GKD's steps for which the student writes completions. 0: none.",
    ),
    Key(
        *("max_new_tokens", "whole", "sequence.max_new_tokens", 128),
        read_with="teacher_model_name_or_path",
        least=1,
        about="The longest completion that GKD's student writes.",
    ),
)
_PARALLEL = (
    Key(
        *("num_processes", "whole", "parallelism.world_size"),
        about="The number of GPUs: TRL's command takes it, and some recipes note it for `accelerate launch`.",
        read=parallel.read_world,
        read_only=True,
    ),
    Key(
        *("accelerate_config", "any"),
        about="Of TRL's command: accelerate's launch file, or the name of one of TRL's own (zero2, zero3, fsdp2, ...).",
    ),
    Key("deepspeed", "any", about="A DeepSpeed configuration, or the path of one: what ZeRO divides and offloads."),
    Key("fsdp", "any", about="Shard with FSDP: true, or the words of its older form (full_shard auto_wrap)."),
    Key(
        *("parallelism_config", "any", "parallelism.context_parallel_size"),
        about="accelerate's ParallelismConfig: GPUs that share each sequence (cp_size, sp_size) or layer (tp_size).",
        also=("parallelism.sequence_parallel_size", "parallelism.tensor_parallel_size"),
        read=parallel.read_degrees,
        read_only=True,
    ),
    Key("fsdp_config", "any", about="FSDP's options, or the path of a JSON file with them."),
)
# Rows are read in this order: what a key needs stands before it.
OWN_KEYS = Keys(
    *(
        *_PARALLEL,
        *_MODEL,
        *QUANTIZATION,
        *ADAPTER,
        *_REFERENCE,
        *_GENERATION,
        *_SEQUENCE,
        *_REWARDS,
        *_PPO,
        *_DISTILLATION,
    )
)
KEYS = Keys(*TRAINING_ARGUMENTS, *OWN_KEYS)
